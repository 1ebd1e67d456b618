#include "families/shared/hf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "families/storage.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr std::int64_t kLargest = 1 << 24;  // of widths, vocabularies and contexts

// Known to every family, and without effect on what a run of the model computes: about files and tasks, about
// tokens, and about how it is run.
constexpr auto kOfFiles = {"model_type",
                           "architectures",
                           "transformers_version",
                           "auto_map",
                           "_name_or_path",
                           "name_or_path",
                           "torch_dtype",
                           "dtype",
                           "problem_type",
                           "task_specific_params",
                           "id2label",
                           "label2id",
                           "num_labels"};
constexpr auto kOfTokens = {"bos_token_id",           "eos_token_id", "pad_token_id",   "sep_token_id",
                            "decoder_start_token_id", "unk_token_id", "tokenizer_class"};
constexpr auto kOfRuns = {"use_cache",
                          "is_decoder",
                          "is_encoder_decoder",
                          "initializer_range",
                          "init_std",
                          "pretraining_tp",
                          "gradient_checkpointing",
                          "output_attentions",
                          "output_hidden_states",
                          "return_dict",
                          "tie_word_embeddings",
                          "cross_attention_hidden_size",
                          "chunk_size_feed_forward",
                          "use_bfloat16"};

// Keys that change what transformers computes for every family, but that no family supports.
constexpr auto kOfEveryFamily = {"per_layer_config"};

// Part of the names of keys about how weights are stored, which families do not decide.
constexpr std::string_view kStorage = "quant";

// Parts of names that sound as if the key changed what a model computes. The family's reader reads or refuses
// all keys that transformers' class of the family reads, so an unread key of such a name has no effect; but
// its author may think that it has one.
constexpr auto kSoundsLikeComputing = {"rope",       "rotary",
                                       "attn",       "attention",
                                       "expert",     "moe",
                                       "router",     "window",
                                       "softcap",    "sink",
                                       "scal",       "clip",
                                       "alibi",      "topk",
                                       "top_k",      "multiplier",
                                       "qk_",        "position_embedding_type",
                                       "layer_type", "activation_sparsity"};

// Parts of the names of keys that concern training alone.
constexpr auto kTrainingOnly = {"drop", "aux_loss", "z_loss", "output_router", "jitter", "summary"};

// Parts of the names of keys that select an implementation of the same computation.
constexpr auto kImplementation = {"implementation", "flash", "sdpa", "xformers", "kernel"};

bool contains_any(std::string_view text, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

}  // namespace

LayerFlags flag_layers(const ModelConfig& config, const LayerRule& rule) {
  LayerFlags flags;
  for (std::int64_t l = 0; l < config.n_layers; ++l) flags.push_back(rule(l));
  return flags;
}

LayerFlags none_if_all_false(LayerFlags flags) {
  if (std::find(flags.begin(), flags.end(), true) == flags.end()) flags.clear();
  return flags;
}

HfConfig::HfConfig(std::string_view text, std::string_view where, const std::string& group)
    : whole_(text, where), json_(group.empty() ? whole_ : whole_.object(group)), group_(group) {}

std::int64_t HfConfig::count(std::string_view key) const {
  const std::int64_t value = json_.integer(key);
  if (value < 1 || value > kLargest)
    json_.refuse(key, fmt::format("is out of range; expected 1 to {}", kLargest));
  return value;
}

double HfConfig::positive_or(std::string_view key, double fallback) const {
  const double value = json_.number_or(key, fallback);
  if (!std::isfinite(value) || value <= 0)
    json_.refuse(key, "is not allowed; expected a finite number above 0");
  return value;
}

ModelConfig HfConfig::sizes(const SizeKeys& keys, bool tied) {
  const auto count_or = [&](std::string_view key, std::int64_t fallback) {
    return !key.empty() && json_.has(key) ? count(key) : fallback;
  };
  ModelConfig c;
  c.n_layers = count(keys.n_layers);
  c.d_model = count(keys.d_model);
  c.n_heads = count(keys.n_heads);
  const bool says_all = keys.n_kv_heads_fallback == 0 || json_.is_null(keys.n_kv_heads);
  c.n_kv_heads = count_or(keys.n_kv_heads, says_all ? c.n_heads : keys.n_kv_heads_fallback);
  if (c.n_heads % c.n_kv_heads != 0) {
    json_.refuse(keys.n_kv_heads,
                 fmt::format("does not divide {} = {}; expected a divisor of it", keys.n_heads, c.n_heads));
  }
  c.d_head = count_or(keys.d_head, keys.d_head_fallback);
  if (c.d_head == 0) {
    if (c.d_model % c.n_heads != 0) {
      json_.refuse(keys.n_heads, fmt::format("heads do not divide {} = {}; expected a divisor of it",
                                             keys.d_model, c.d_model));
    }
    c.d_head = c.d_model / c.n_heads;
  }
  c.d_mlp = keys.mlp_ratio > 0 ? count_or(keys.d_mlp, std::min(kLargest, keys.mlp_ratio * c.d_model))
                               : count(keys.d_mlp);
  c.n_ctx = keys.n_ctx_fallback > 0 ? count_or(keys.n_ctx, keys.n_ctx_fallback) : count(keys.n_ctx);
  c.d_vocab = count("vocab_size");
  c.unembedding =
      Unembedding{.d_vocab = c.d_vocab, .tied = json_.boolean_or("tie_word_embeddings", tied), .bias = false};
  c.attn_scale = std::sqrt(static_cast<double>(c.d_head));
  c.mlp_bias = c.qkv_bias = c.attn_out_bias = false;
  // If a family has another name for a size, transformers knows this name as well, and it takes precedence.
  const SizeKeys usual;
  for (const auto& [other, key] :
       {std::pair{usual.n_layers, keys.n_layers}, std::pair{usual.d_model, keys.d_model},
        std::pair{usual.n_heads, keys.n_heads}}) {
    if (other == key || !json_.has(other) || count(other) == count(key)) continue;
    json_.refuse(other,
                 fmt::format("is another number than {} = {}, and both are names of one; expected one of the "
                             "two, or the same number",
                             key, count(key)));
  }
  for (const auto& [field, key] : {std::pair{"n_layers", keys.n_layers}, std::pair{"d_model", keys.d_model},
                                   std::pair{"n_heads", keys.n_heads}, std::pair{"d_mlp", keys.d_mlp},
                                   std::pair{"d_head", keys.d_head}, std::pair{"n_ctx", keys.n_ctx}}) {
    comes_from(field, json_.where(json_.has(key) ? key : keys.d_model));
  }
  return c;
}

Activation HfConfig::activation(std::string_view key, std::string_view fallback) const {
  const auto parsed = parse_activation(json_.text_or(key, fallback));
  if (parsed == Activation::xielu && fallback != "xielu") {
    json_.refuse(key,
                 "has trained numbers of its own, which only families have that use no other; expected an "
                 "activation without any");
  }
  if (!parsed || *parsed == Activation::solu || *parsed == Activation::swish) {
    json_.refuse(
        key,
        "is not an activation this engine knows; expected gelu, gelu_new, gelu_pytorch_tanh, "
        "gelu_python_tanh, gelu_accurate, gelu_fast, gelu_10, quick_gelu, relu, relu2, relu6, leaky_relu, "
        "silu, swish, hardswish, mish, sigmoid, tanh, laplace, sqrtsoftplus or linear");
  }
  return *parsed;
}

void HfConfig::require_unset(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    if (!json_.is_unset(key))
      json_.refuse(key, "is not supported by this family; expected null, false or no such key");
  }
}

LayerFlags HfConfig::layers_of_type(const ModelConfig& config, const LayerRule& usually,
                                    std::string_view type) const {
  if (!json_.has("layer_types")) return flag_layers(config, usually);
  LayerFlags flags;
  for (const std::string& said : json_.texts("layer_types")) {
    if (said != type && said != "full_attention") {
      json_.refuse(
          "layer_types",
          fmt::format("has a kind of layer that is not supported; expected {} and full_attention", type));
    }
    flags.push_back(said == type);
  }
  if (static_cast<std::int64_t>(flags.size()) != config.n_layers) {
    json_.refuse("layer_types", fmt::format("has {} entries; expected one for each of the {} layers",
                                            flags.size(), config.n_layers));
  }
  return flags;
}

void HfConfig::set_windows(ModelConfig& config, const WindowKey& window, LayerFlags windowed) const {
  const bool none = json_.is_null(window.name) || (!json_.has(window.name) && window.fallback == 0);
  windowed = none_if_all_false(std::move(windowed));
  if (windowed.empty() || (none && window.null_is_none)) return;
  if (none) {
    json_.refuse(
        window.name,
        "leaves open how many keys the windowed layers see; expected their number, or no such layer");
  }
  config.window = Window{.kind = window.kind,
                         .size = json_.has(window.name) ? count(window.name) : window.fallback,
                         .layers = std::move(windowed)};
}

void HfConfig::comes_from(std::string field, std::string where) {
  origins_[std::move(field)] = std::move(where);
}

void HfConfig::note(std::string_view text) { notes_.emplace_back(text); }

std::vector<std::string> HfConfig::ignored_keys() {
  std::vector<std::string> ignored, without_effect;
  const auto look_at = [&](const ConfigReader& reader, const std::string& path) {
    for (const auto& keys : {kOfFiles, kOfTokens, kOfRuns}) {
      for (const char* key : keys) reader.ignore({key});
    }
    for (const std::string& key : reader.unread()) {
      if (contains_any(key, kTrainingOnly) || contains_any(key, kImplementation)) continue;
      if (&reader == &whole_ && key.starts_with(group_ + '.')) continue;  // checked separately
      const bool set = !reader.is_unset(key);
      if (set && (contains_any(key, kOfEveryFamily) || key.find(kStorage) != std::string::npos)) {
        reader.refuse(
            key,
            "is not a key this engine honours, and one of its name changes what the model computes; "
            "expected null, false or no such key");
      }
      if (set && contains_any(key, kSoundsLikeComputing)) without_effect.push_back(path + key);
      ignored.push_back(path + key);
    }
  };
  if (!group_.empty()) look_at(whole_, "");
  look_at(json_, group_.empty() ? "" : group_ + '.');
  if (!without_effect.empty()) {
    note(fmt::format("[{}] {} {} no effect: transformers does not read {} for this family", json_.where(),
                     fmt::join(without_effect, ", "), without_effect.size() == 1 ? "has" : "have",
                     without_effect.size() == 1 ? "it" : "them"));
  }
  return ignored;
}

std::optional<QuantisedStorage> HfConfig::storage() const {
  if (group_.empty() || json_.is_unset(kQuantisationKey)) return read_storage(whole_);
  if (!whole_.is_unset(kQuantisationKey)) {
    json_.refuse(kQuantisationKey, "is given both here and for the whole model; expected one of the two");
  }
  return read_storage(json_);
}

FamilyConfig HfConfig::finish(ModelConfig config, RecipeMaker recipes) && {
  std::optional<QuantisedStorage> stored = storage();
  const bool causal = config.direction == AttentionDirection::causal;
  if (json_.boolean_or("is_causal", causal) != causal) {
    json_.refuse("is_causal", fmt::format("is not supported by this family; expected {}", causal));
  }
  std::vector<std::string> architectures;
  if (whole_.has("architectures")) architectures = whole_.texts("architectures");
  std::vector<std::string> ignored = ignored_keys();
  try {
    config.validate();
  } catch (const ConfigError& error) {
    const auto origin = origins_.find(error.where());
    throw ConfigError(origin == origins_.end() ? json_.where(error.where()) : origin->second,
                      error.message());
  }
  return {.config = std::move(config),
          .recipes = std::move(recipes),
          .notes = std::move(notes_),
          .ignored_keys = std::move(ignored),
          .architectures = std::move(architectures),
          .padding_token = padding_token_,
          .storage = std::move(stored)};
}

}  // namespace hooked
