// SAELens's folders: version 6, and those before, whose config is brought into the form of version 6 first.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "dictionaries/config_file.h"
#include "dictionaries/dictionary_data.h"
#include "dictionaries/formats.h"
#include "dictionaries/saelens_words.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "io/checkpoint/model_files.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

/// What is known but not read, and why.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kNotRead = {{
    {"temporal",
     "its codes depend on whole rows through attention layers of its own, which hooked does not compute"},
    {"batchtopk",
     "this is the form in training; SAELens saves it for use as jumprelu (save_inference_model)"},
    {"matryoshka_batchtopk",
     "this is the form in training; SAELens saves it for use as jumprelu (save_inference_model)"},
}};

/// Fields of the configs themselves; in files before version 6 all others are facts about the dictionary.
const std::set<std::string_view>& config_keys() {
  static const std::set<std::string_view> keys = {"architecture",
                                                  "d_in",
                                                  "d_sae",
                                                  "d_out",
                                                  "dtype",
                                                  "device",
                                                  "apply_b_dec_to_input",
                                                  "normalize_activations",
                                                  "reshape_activations",
                                                  "k",
                                                  "rescale_acts_by_decoder_norm",
                                                  "residual_threshold",
                                                  "max_iterations",
                                                  "stop_on_duplicate_support",
                                                  "finetuning_scaling_factor",
                                                  "activation_fn",
                                                  "activation_fn_kwargs",
                                                  "metadata"};
  return keys;
}

Json version_of(const Json& config) {
  const auto found = config.find("sae_lens_version");
  if (found != config.end() && !found->is_null()) return *found;
  const auto metadata = config.find("metadata");
  return metadata != config.end() && metadata->is_object() ? metadata->value("sae_lens_version", Json())
                                                           : Json();
}

bool is_before_6(const Json& config) {
  const Json version = version_of(config);
  if (!version.is_string()) return true;
  return is_before_version_6(version.get<std::string>());
}

/// The config that SAELens 6 makes of one before it.
Json as_version_6(const Json& old, const std::filesystem::path& file) {
  Json config = Json::object();
  for (const auto& [key, value] : old.items()) {
    const std::string name = key == "hook_point"              ? "hook_name"
                             : key == "hook_point_head_index" ? "hook_head_index"
                             : key == "activation_fn_str"     ? "activation_fn"
                                                              : key;
    if (config.contains(name)) {
      throw ConfigError(fmt::format("{}: {}", path_text(file), key),
                        fmt::format("the field is there under two names; expected one, got '{}' too", name));
    }
    config[name] = value;
  }
  const auto absent = [&](const char* key) { return !config.contains(key) || config.at(key).is_null(); };
  if (absent("prepend_bos")) config["prepend_bos"] = true;
  if (absent("architecture")) config["architecture"] = "standard";
  if (absent("reshape_activations")) {
    const bool heads = config.contains("hook_name") && config.at("hook_name").is_string() &&
                       config.at("hook_name").get<std::string>().find("hook_z") != std::string::npos;
    config["reshape_activations"] = heads ? "hook_z" : "none";
  }
  if (absent("normalize_activations")) {
    config["normalize_activations"] = "none";
  } else if (config.at("normalize_activations").is_boolean()) {
    config["normalize_activations"] =
        config.at("normalize_activations").get<bool>() ? "expected_average_only_in" : "none";
  }
  const ConfigReader reader = reader_of(config, file);
  const std::string activation = reader.text_or("activation_fn", "relu");
  const auto kwargs = reader.object_if("activation_fn_kwargs");
  if (activation == "topk" && kwargs && kwargs->has("k")) {
    config["architecture"] = "topk";
    config["k"] = kwargs->integer("k");
  } else if (activation != "relu") {
    reader.refuse("activation_fn",
                  "is no activation of dictionaries that is read; expected relu, or topk with its k "
                  "in activation_fn_kwargs");
  }
  Json metadata = config.value("metadata", Json::object());
  for (const auto& [key, value] : config.items()) {
    if (!config_keys().contains(key)) metadata[key] = value;
  }
  Json result = Json::object();
  for (const auto& [key, value] : config.items()) {
    if (config_keys().contains(key) && key != "activation_fn" && key != "activation_fn_kwargs")
      result[key] = value;
  }
  result["metadata"] = std::move(metadata);
  return result;
}

const SaeLensArchitecture& architecture_of(const ConfigReader& reader) {
  const std::string name = reader.text("architecture");
  for (const auto& [known, why] : kNotRead) {
    if (name == known)
      reader.refuse("architecture", fmt::format("is not read: {}; expected another dictionary", why));
  }
  const auto found = std::ranges::find(kSaeLensArchitectures, name, &SaeLensArchitecture::name);
  if (found != kSaeLensArchitectures.end()) return *found;
  std::string known;
  for (const SaeLensArchitecture& row : kSaeLensArchitectures)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  reader.refuse("architecture",
                fmt::format("is no architecture of SAELens that is read; expected one of {}", known));
}

void take_norm(const ConfigReader& reader, DictionaryConfig& config) {
  const std::string word = reader.text_or("normalize_activations", "none");
  const auto found = std::ranges::find(kSaeLensNorms, word, &SaeLensNorm::name);
  if (found == kSaeLensNorms.end()) {
    reader.refuse("normalize_activations",
                  "is no normalisation that is read; expected none, layer_norm, constant_norm_rescale, "
                  "expected_average_only_in or covariance_whitening");
  }
  config.input_norm = found->norm;
  if (config.input_norm == InputNorm::expected_average) {
    config.notes.emplace_back(
        "normalize_activations is expected_average_only_in: it was trained on inputs times sqrt(d_in) / "
        "their mean norm; "
        "that factor is not applied at run time and should have been folded into the weights, and nothing in "
        "the folder "
        "says whether it was");
  }
  if (config.input_norm == InputNorm::whitening) {
    config.notes.emplace_back(
        "normalize_activations is covariance_whitening, which SAELens folds into the weights at the end of "
        "training and "
        "then calls none; this folder is a state before that, and its inputs are not whitened");
  }
}

void take_sizes(const ConfigReader& reader, const SaeLensArchitecture& row, DictionaryConfig& config) {
  config.d_in = reader.count("d_in", kMostInConfig);
  config.features = reader.count("d_sae", kMostInConfig);
  config.d_out = row.transcodes && reader.has("d_out") ? reader.count("d_out", kMostInConfig) : config.d_in;
  if (config.activation == CodeActivation::top_k || config.activation == CodeActivation::abs_top_k) {
    config.k = reader.has("k") ? reader.count("k", kMostInConfig) : 100;
    if (reader.boolean_or("rescale_acts_by_decoder_norm", false)) config.decoder_norms = DecoderNorms::scaled;
  }
  if (config.activation == CodeActivation::matching_pursuit) {
    config.residual_threshold = reader.number_or("residual_threshold", 1e-2);
    config.max_iterations = reader.has("max_iterations") ? reader.count("max_iterations", kMostInConfig) : 0;
    config.stops_on_repeat = reader.boolean_or("stop_on_duplicate_support", true);
  }
}

void take_bias_rule(const ConfigReader& reader, const SaeLensArchitecture& row, DictionaryConfig& config) {
  config.subtracts_decoder_bias = reader.boolean_or("apply_b_dec_to_input", !row.transcodes);
  if (row.transcodes && config.subtracts_decoder_bias) {
    reader.refuse("apply_b_dec_to_input",
                  "is not possible for a transcoder, whose b_dec belongs to another activation "
                  "than its input; expected false");
  }
  config.adds_decoder_bias =
      config.activation != CodeActivation::matching_pursuit || config.subtracts_decoder_bias;
}

DictionaryConfig read_config(const ConfigReader& reader, const std::filesystem::path& file, Json metadata) {
  DictionaryConfig config;
  const SaeLensArchitecture& row = architecture_of(reader);
  config.activation = row.activation;
  config.transcodes = row.transcodes;
  config.skips = row.skips;
  config.rectified = row.activation != CodeActivation::abs_top_k;
  take_norm(reader, config);
  take_sizes(reader, row, config);
  take_bias_rule(reader, row, config);
  if (reader.has("dtype")) config.dtype = dtype_at(reader, "dtype");
  const std::string reshape = reader.text_or("reshape_activations", "none");
  if (reshape != "none" && reshape != "hook_z")
    reader.refuse("reshape_activations", "is no form of activations that is read; expected none or hook_z");
  config.flattens_heads = reshape == "hook_z" && !row.transcodes;
  reader.ignore({"device", "metadata", "sae_lens_version", "finetuning_scaling_factor"});
  config.ignored_keys = reader.unread();
  take_metadata(std::move(metadata), file, config);
  return config;
}

// A factor of each code before it is decoded, in files before version 6: the decoder's rows times it.
void take_scaling(const ConfigReader& reader, WeightFile& file, DictionaryPlan& plan) {
  constexpr std::string_view kKey = "scaling_factor";
  if (!file.has(kKey)) return;
  const StoredWeight stored = file.take(kKey);
  if (stored.shape != std::vector<std::int64_t>{plan.config.features}) {
    throw CheckpointError(stored.where,
                          fmt::format("the tensor does not fit the config; expected [{}], got {}",
                                      plan.config.features, shape_text(stored.shape)));
  }
  const at::Tensor factor = stored.read().to(at::kDouble);
  if (at::allclose(factor, at::ones_like(factor))) return;
  if (!reader.boolean_or("finetuning_scaling_factor", false)) {
    throw CheckpointError(stored.where,
                          "it is not all ones, but finetuning_scaling_factor is not true in cfg.json; "
                          "expected both or neither, got the tensor alone");
  }
  StoredWeight& W_dec = plan.weights.at("W_dec");
  const auto shape = W_dec.shape;
  W_dec = changed(std::move(W_dec), shape,
                  [factor](const at::Tensor& x) { return x.to(at::kDouble) * factor.unsqueeze(1); });
  plan.config.notes.emplace_back(
      "scaling_factor, by which codes were multiplied before they were decoded, is folded into W_dec");
}

}  // namespace

bool is_saelens(const std::filesystem::path& path) {
  return is_there(path / kSaeLensConfig) && is_there(path / kSaeLensWeights);
}

DictionaryPlans plan_saelens(const std::filesystem::path& path) {
  const std::filesystem::path config_file = path / kSaeLensConfig;
  Json json = read_json_object(config_file);
  if (const Json metadata = json.value("metadata", Json::object()); !metadata.is_object()) {
    throw ConfigError(
        fmt::format("{}: metadata", path_text(config_file)),
        fmt::format("the field has the wrong type; expected an object, got {}", json_kind(metadata)));
  }
  const bool before_6 = is_before_6(json);
  if (before_6) json = as_version_6(json, config_file);
  Json metadata = json.value("metadata", Json::object());
  const bool states_dtype = json.contains("dtype");
  const ConfigReader reader = reader_of(std::move(json), config_file);
  DictionaryPlan plan{.config = read_config(reader, config_file, std::move(metadata)),
                      .states_dtype = states_dtype};
  plan.config.format = before_6 ? "SAELens before 6" : "SAELens 6";
  WeightFile weights(path / kSaeLensWeights);
  for (const DictionaryWeightRow& row : dictionary_weight_rows()) {
    if (row.shape(plan.config)) plan.weights.emplace(row.name, weights.take(row.name));
  }
  if (StoredWeight* threshold =
          plan.config.activation == CodeActivation::jump_relu ? &plan.weights.at("threshold") : nullptr;
      threshold != nullptr && threshold->shape.empty()) {  // one for all, in files of others
    *threshold = changed(*threshold, {plan.config.features},
                         [n = plan.config.features](const at::Tensor& x) { return x.expand({n}); });
  }
  if (plan.config.transcodes && !reader.has("d_out")) {  // SAELens's default, 768, is a model's
    const auto& shape = plan.weights.at("W_dec").shape;
    if (shape.size() == 2) plan.config.d_out = shape[1];
  }
  take_scaling(reader, weights, plan);
  plan.add_file(weights);
  plan.files.push_back(config_file);
  return {.members = {std::move(plan)}};
}

}  // namespace hooked
