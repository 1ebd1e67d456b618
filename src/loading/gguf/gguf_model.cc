#include "loading/gguf/gguf_model.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/name_list.h"
#include "families/family.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 24;

/// A key that adds nothing at these values, and is refused at others.
struct NeutralKey {
  std::string_view key;
  std::array<double, 2> values;
};

constexpr NeutralKey kNeutralKeys[] = {{"attention.max_alibi_bias", {0, 0}},
                                       {"attention.clamp_kqv", {0, 0}},
                                       {"attention.scale", {0, 0}},
                                       {"attention.sliding_window", {0, 0}},
                                       {"attn_logit_softcapping", {0, 0}},
                                       {"final_logit_softcapping", {0, 0}},
                                       {"logit_scale", {0, 1}},
                                       {"residual_scale", {0, 1}},
                                       {"embedding_scale", {0, 1}},
                                       {"expert_count", {0, 0}},
                                       {"expert_used_count", {0, 0}},
                                       {"expert_shared_count", {0, 0}},
                                       {"expert_weights_scale", {0, 1}},
                                       {"expert_gating_func", {0, 1}},  // 1: softmax
                                       {"expert_group_count", {0, 1}},
                                       {"expert_group_used_count", {0, 1}},
                                       {"leading_dense_block_count", {0, 0}},
                                       {"pooling_type", {0, 0}}};

// Keys that do not affect what is computed.
constexpr std::string_view kHarmlessKeys[] = {"vocab_size", "rope.scaling.finetuned", "tensor_data_layout"};

// The rotated share of a head, from which the number of rotated dimensions can be computed again.
double share_of(std::int64_t dimensions, std::int64_t d_head) {
  const auto head = static_cast<double>(d_head);
  double share = static_cast<double>(dimensions) / head;
  while (share < 1.0 && static_cast<std::int64_t>(head * share) < dimensions)
    share = std::nextafter(share, 1.0);
  return share;
}

}  // namespace

GgufModelReader::GgufModelReader(const CheckpointReader& reader, const GgufArchitecture& architecture)
    : reader_(reader),
      architecture_(architecture),
      metadata_(*reader.gguf()),
      where_(path_text(reader.gguf_file())) {}

void GgufModelReader::refuse(std::string_view key, std::string_view what) const {
  throw CheckpointError(where_, fmt::format("metadata '{}.{}' {}", architecture_.name, key, what));
}

const GgufValue* GgufModelReader::find(std::string_view key) {
  const std::string whole = fmt::format("{}.{}", architecture_.name, key);
  read_.insert(whole);
  return find_value(metadata_, whole);
}

std::optional<std::int64_t> GgufModelReader::integer(std::string_view key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto first = value->integer();
  for (std::size_t i = 0; i < value->size(); ++i) {
    if (value->integer(i) != first) refuse(key, "differs from layer to layer; expected one number for all");
  }
  if (!first) refuse(key, fmt::format("is not an integer; expected one, got {}", value->type_text()));
  return first;
}

std::optional<double> GgufModelReader::real(std::string_view key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = value->is_array() ? std::nullopt : value->real();
  if (!number || !std::isfinite(*number))
    refuse(key, fmt::format("is not a finite number; expected one, got {}", value->type_text()));
  return number;
}

std::optional<bool> GgufModelReader::boolean(std::string_view key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto flag = value->is_array() ? std::nullopt : value->boolean();
  if (!flag) refuse(key, fmt::format("is not a bool; expected one, got {}", value->type_text()));
  return flag;
}

std::optional<std::string> GgufModelReader::text(std::string_view key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto words = value->is_array() ? std::nullopt : value->text();
  if (!words) refuse(key, fmt::format("is not a text; expected one, got {}", value->type_text()));
  return printable(*words);
}

std::int64_t GgufModelReader::required(std::string_view key) {
  const auto value = integer(key);
  if (!value) refuse(key, "is missing; expected it in every file of this architecture");
  if (*value < 1 || *value > kLargestSize)
    refuse(key, fmt::format("is out of range; expected 1 to {}, got {}", kLargestSize, *value));
  return *value;
}

void GgufModelReader::require(std::string_view key, bool value) {
  if (const auto got = boolean(key); got && *got != value)
    refuse(key, fmt::format("is {}, which is not supported; expected {}", *got, value));
}

void GgufModelReader::zero_or_one(std::string_view key) {
  if (const auto got = integer(key); got && *got != 0 && *got != 1)
    refuse(key, fmt::format("is {}, which is not supported; expected 0 or 1", *got));
}

std::vector<std::int64_t> GgufModelReader::layers_without(std::string_view tensor) const {
  std::vector<std::int64_t> layers;
  if (!reader_.missing_shards().empty()) return layers;  // it may be in a missing file
  for (std::int64_t l = 0; l < n_layers_; ++l) {
    if (!has_tensor(fmt::format("blk.{}.{}", l, tensor))) layers.push_back(l);
  }
  return layers;
}

std::optional<std::int64_t> GgufModelReader::window() {
  const auto size = integer("attention.sliding_window");
  return size == 0 ? std::nullopt : size;
}

void GgufModelReader::read_experts(std::string_view key) {
  set(key, required("expert_count"));
  set("num_experts_per_tok", required("expert_used_count"));
}

Json GgufModelReader::factors(std::string_view tensor) const {
  Json list = Json::array();
  const TensorInfo& info = reader_.info(tensor);
  if (info.dtype != at::kFloat || info.shape.size() != 1 || info.shape.front() > kLargestSize) {
    throw CheckpointError(
        where_, fmt::format("tensor '{}' is not a list of factors; expected float32 numbers, got {} {}",
                            tensor, info.dtype_name, shape_text(info.shape)));
  }
  const at::Tensor numbers = reader_.read(tensor);
  const auto* const data = static_cast<const float*>(numbers.data_ptr());
  for (std::int64_t i = 0; i < numbers.numel(); ++i) list.push_back(shortest_decimal(data[i]));
  return list;
}

// Note [Frequency factors of GGUF]
// GGUF files have Llama 3's scaling not as its four numbers but as the result: a divisor for each frequency
// (`rope_freqs.weight`). Phi 3 has two such lists, and the length decides which one applies. Llama 3's case
// equals Phi 3's with two equal lists.
void GgufModelReader::read_long_factors(Json& parameters) {
  constexpr std::string_view kOne = "rope_freqs.weight", kShort = "rope_factors_short.weight",
                             kLong = "rope_factors_long.weight";
  if (has_tensor(kOne)) {
    if (parameters.contains("rope_type"))
      refuse("rope.scaling.type", "is set together with 'rope_freqs.weight'; expected one of the two");
    parameters["rope_type"] = "longrope";
    parameters["short_factor"] = parameters["long_factor"] = factors(kOne);
    parameters["attention_factor"] = 1.0;
    return;
  }
  if (!has_tensor(kShort) && !has_tensor(kLong)) return;
  if (parameters.contains("rope_type") && parameters["rope_type"] != "longrope")
    refuse("rope.scaling.type", fmt::format("is set together with '{}'; expected longrope", kLong));
  parameters["rope_type"] = "longrope";
  parameters["short_factor"] = factors(kShort);
  parameters["long_factor"] = factors(kLong);
}

void GgufModelReader::read_scaling(Json& parameters) {
  const auto type = text("rope.scaling.type");
  const auto older = real("rope.scale_linear"), newer = real("rope.scaling.factor");
  if (older && newer && *older != *newer)
    refuse("rope.scale_linear", "differs from 'rope.scaling.factor'; expected one of the two");
  const double factor = newer.value_or(older.value_or(1.0));
  const auto original = integer("rope.scaling.original_context_length");
  const auto magnitude = real("rope.scaling.attn_factor");
  const std::string kind = type.value_or(factor == 1.0 || factor == 0.0 ? "none" : "linear");
  if (kind == "linear") {
    if (factor != 1.0 && factor != 0.0) {
      parameters["rope_type"] = "linear";
      parameters["factor"] = factor;
    }
  } else if (kind == "yarn") {
    const double usual = factor <= 1.0 ? 1.0 : 0.1 * std::log(factor) + 1.0;
    const double own = real("rope.scaling.yarn_attn_factor").value_or(1.0);
    parameters["rope_type"] = "yarn";
    parameters["factor"] = factor;
    if (original) parameters["original_max_position_embeddings"] = *original;
    parameters["attention_factor"] = usual * own * magnitude.value_or(1.0);
    if (const auto fast = real("rope.scaling.yarn_beta_fast")) parameters["beta_fast"] = *fast;
    if (const auto slow = real("rope.scaling.yarn_beta_slow")) parameters["beta_slow"] = *slow;
    const double share = real("rope.scaling.yarn_ext_factor").value_or(1.0);
    if (share != 1.0 && share != -1.0)
      refuse("rope.scaling.yarn_ext_factor", fmt::format("is {}, which is not supported; expected 1", share));
  } else if (kind == "longrope") {
    parameters["rope_type"] = "longrope";
  } else if (kind != "none") {
    refuse("rope.scaling.type",
           fmt::format("is '{}', which is not supported; expected none, linear, yarn or longrope", kind));
  }
  read_long_factors(parameters);
  if (parameters.value("rope_type", "") == "longrope") {
    if (original) parameters["original_max_position_embeddings"] = *original;
    if (magnitude) parameters["attention_factor"] = *magnitude;
    if (!parameters.contains("long_factor"))
      refuse("rope.scaling.type",
             "is longrope without its factors; expected a tensor 'rope_factors_long.weight'");
  } else if (kind != "yarn" && magnitude.value_or(1.0) != 1.0) {
    refuse("rope.scaling.attn_factor",
           fmt::format("is {}, which is not supported here; expected 1", *magnitude));
  }
}

Json GgufModelReader::rope() {
  Json parameters = {{"rope_theta", real("rope.freq_base").value_or(10000.0)}};
  const std::int64_t turned = integer("rope.dimension_count").value_or(d_head_);
  if (turned < 1 || turned > d_head_)
    refuse("rope.dimension_count", fmt::format("is out of range; expected 1 to {}, got {}", d_head_, turned));
  if (architecture_.partial || turned != d_head_)
    parameters["partial_rotary_factor"] = share_of(turned, d_head_);
  read_scaling(parameters);
  return parameters;
}

void GgufModelReader::read_sizes() {
  const GgufConfigKeys& keys = architecture_.keys;
  n_ctx_ = required("context_length");
  n_layers_ = required("block_count");
  d_model_ = required("embedding_length");
  n_heads_ = required("attention.head_count");
  set("max_position_embeddings", n_ctx_);
  set("num_hidden_layers", n_layers_);
  set("hidden_size", d_model_);
  set("num_attention_heads", n_heads_);
  set(keys.d_mlp, required("feed_forward_length"));
  constexpr std::string_view kEmbedding = "token_embd.weight";
  const std::vector<std::int64_t> shape =
      has_tensor(kEmbedding) ? reader_.info(kEmbedding).shape : std::vector<std::int64_t>();
  if (shape.size() != 2) {
    throw CheckpointError(where_,
                          fmt::format("tensor '{}' is missing or no matrix; expected the embedding, got the "
                                      "shape {}",
                                      kEmbedding, shape_text(shape)));
  }
  set("vocab_size", shape.front());
  // Models in several files are large, and large models have an unembedding of their own.
  set("tie_word_embeddings", !has_tensor("output.weight") && reader_.missing_shards().empty());
  const std::string_view eps =
      architecture_.layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
  const auto value = real(eps);
  if (!value) refuse(eps, "is missing; expected the number that norms add");
  set(keys.eps, *value);
}

void GgufModelReader::read_heads() {
  const GgufConfigKeys& keys = architecture_.keys;
  const std::int64_t kv_heads =
      find("attention.head_count_kv") == nullptr ? n_heads_ : required("attention.head_count_kv");
  if (!keys.kv_heads.empty()) {
    set(keys.kv_heads, kv_heads);
  } else if (kv_heads != n_heads_) {
    refuse("attention.head_count_kv",
           fmt::format("is {}; expected as many as heads, {}", kv_heads, n_heads_));
  }
  const auto width = integer("attention.key_length");
  if (!width && d_model_ % n_heads_ != 0) {
    refuse(
        "attention.head_count",
        fmt::format("does not divide 'embedding_length' {}; expected a divisor, got {}", d_model_, n_heads_));
  }
  d_head_ = width ? required("attention.key_length") : d_model_ / n_heads_;
  for (const std::string_view key :
       {"attention.value_length", "attention.key_length_swa", "attention.value_length_swa"}) {
    if (const auto other = integer(key); other && *other != d_head_)
      refuse(key, fmt::format("is {}, which is not supported; expected that of keys, {}", *other, d_head_));
  }
  if (!keys.d_head.empty()) {
    set(keys.d_head, d_head_);
  } else if (d_head_ * n_heads_ != d_model_) {
    refuse("attention.key_length",
           fmt::format("is {}, which is not supported; expected {}", d_head_,
                       static_cast<double>(d_model_) / static_cast<double>(n_heads_)));
  }
}

void GgufModelReader::check_neutral() {
  for (const NeutralKey& neutral : kNeutralKeys) {
    if (read_.contains(fmt::format("{}.{}", architecture_.name, neutral.key))) continue;
    const auto got = real(neutral.key);
    if (got && *got != neutral.values[0] && *got != neutral.values[1])
      refuse(neutral.key, fmt::format("is {}, which is not supported; expected {}", *got, neutral.values[1]));
  }
  require("attention.causal", true);
  for (const std::string_view key : kHarmlessKeys) find(key);
}

void GgufModelReader::refuse_unread() const {
  const std::string prefix = fmt::format("{}.", architecture_.name);
  std::vector<std::string> unread;
  for (const auto& [key, value] : metadata_) {
    if (key.starts_with(prefix) && !read_.contains(key)) unread.push_back(key);
  }
  if (unread.empty()) return;
  throw CheckpointError(where_,
                        fmt::format("metadata {} {} not supported, and may change what the model computes; "
                                    "expected no such key",
                                    name_list(unread), unread.size() == 1 ? "is" : "are"));
}

Json GgufModelReader::config() && {
  set("model_type", architecture_.model_type);
  read_sizes();
  read_heads();
  if (architecture_.rotary) set("rope_parameters", rope());
  if (architecture_.read != nullptr) architecture_.read(*this);
  check_neutral();
  refuse_unread();
  return std::move(config_);
}

IdentifiedModel identify_gguf(const CheckpointReader& reader) {
  // If files are missing, the others suffice to identify the model if they have its embedding and its first
  // block.
  const bool told =
      reader.contains("token_embd.weight") &&
      std::ranges::any_of(reader.names(), [](const auto& name) { return name.starts_with("blk.0."); });
  if (!told) reader.require_whole();
  const GgufArchitecture& architecture = gguf_architecture(reader);
  const Json config = GgufModelReader(reader, architecture).config();
  // Errors in the families' terms are reported at their keys.
  const ConfigText text{
      .text = json_text(config),
      .where = fmt::format("{}, its metadata as a config.json", path_text(reader.gguf_file()))};
  const Family& family = family_of(config.at("model_type").get<std::string>(), text.where);
  return {family, read_family_config(family, text), text};
}

}  // namespace hooked
