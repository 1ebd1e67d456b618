// dictionary_learning, sparsify and Qwen Scope.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/json.h"
#include "dictionaries/config_file.h"
#include "dictionaries/formats.h"
#include "dictionaries/site_names.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "io/checkpoint/model_files.h"
#include "io/files/hub_name.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

constexpr const char* kAutoencoderFile = "ae.pt";
constexpr const char* kTrainingConfig = "config.json";
constexpr const char* kSparsifyWeights = "sae.safetensors";
constexpr std::string_view kQwenBefore = "layer";
constexpr std::string_view kQwenAfter = ".sae.pt";

/// A class of dictionary_learning.
struct LearningClass {
  std::string_view name;
  CodeActivation activation;
  bool subtracts_decoder_bias;
  bool linear;  ///< its matrices are those of Linear: [out, in]
  std::string_view bias;
};
constexpr std::array<LearningClass, 7> kClasses = {{
    {"AutoEncoder", CodeActivation::relu, true, true, "bias"},
    {"AutoEncoderNew", CodeActivation::relu, false, true, "decoder.bias"},
    {"GatedAutoEncoder", CodeActivation::gated, true, true, "decoder_bias"},
    {"JumpReluAutoEncoder", CodeActivation::jump_relu, false, false, "b_dec"},
    {"AutoEncoderTopK", CodeActivation::top_k, true, true, "b_dec"},
    {"BatchTopKSAE", CodeActivation::jump_relu, true, true, "b_dec"},
    {"MatryoshkaBatchTopKSAE", CodeActivation::jump_relu, true, false, "b_dec"},
}};

const LearningClass& class_of(const ConfigReader& trainer) {
  const std::string name = trainer.text("dict_class");
  std::string known;
  for (const LearningClass& row : kClasses) {
    if (row.name == name) return row;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  trainer.refuse(
      "dict_class",
      name.find("CrossCoder") != std::string::npos
          ? fmt::format("is not read: a crosscoder reads several activations at once; expected one of {}",
                        known)
          : fmt::format("is no class that is read; expected one of {}", known));
}

void take_learning_place(const ConfigReader& trainer, DictionaryConfig& config) {
  config.model_name = trainer.text_or("lm_name", "");
  if (!trainer.has("layer")) {
    config.notes.emplace_back(
        "the files do not say which layer it reads (trainer.layer); say it with the site");
    return;
  }
  config.layer = trainer.count("layer", kMostInConfig);
  const std::string module = trainer.text_or("submodule_name", "");
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kNames = {
      {{"resid_post", "hook_resid_post"},
       {"resid_pre", "hook_resid_pre"},
       {"attention", "hook_attn_out"},
       {"mlp", "hook_mlp_out"}}};
  for (const auto& [word, site] : kNames) {
    if (module.find(word) != std::string::npos) config.input = site_in_block(*config.layer, site);
  }
  if (module.empty()) {
    config.input = site_in_block(*config.layer, "hook_resid_post");
    config.notes.emplace_back(
        "the files name a layer and no activation in it (trainer.submodule_name): taken for "
        "hook_resid_post, which that library's scripts train on");
  } else if (config.input.empty()) {
    config.notes.push_back(
        fmt::format("trainer.submodule_name '{}' is no activation that is known here; say it with the site",
                    printable(module)));
  }
  config.output = config.input;
}

StoredWeight one_threshold(WeightFile& weights, std::int64_t features) {
  StoredWeight threshold = weights.take("threshold");
  if (!threshold.shape.empty()) return threshold;
  return changed(std::move(threshold), {features},
                 [features](const at::Tensor& x) { return x.expand({features}); });
}

/// The activation's place by the name of a folder of sparsify: `layers.3.mlp`.
void take_sparsify_place(const std::string& folder, DictionaryConfig& config) {
  if (folder == "embed_tokens") {
    config.input = config.output = "hook_embed";
    return;
  }
  for (const std::string_view word : {"layers.", "layers_", "h."}) {
    if (!config.layer) config.layer = number_after(folder, word);
  }
  if (!config.layer) {
    config.notes.push_back(
        fmt::format("the folder's name, '{}', does not say which activation it reads (layers.<i>, "
                    "layers.<i>.mlp, embed_tokens); say it with the site",
                    printable(folder)));
    return;
  }
  const auto site = [&](std::string_view name) { return site_in_block(*config.layer, name); };
  const bool attention =
      folder.find("attn") != std::string::npos || folder.find("attention") != std::string::npos;
  if (folder.ends_with("mlp")) {
    config.input = site(config.transcodes ? "mlp.hook_in" : "hook_mlp_out");
    config.output = site("hook_mlp_out");
  } else if (attention) {
    config.output = site("hook_attn_out");
    if (!config.transcodes) config.input = config.output;
  } else {
    config.input = site(config.transcodes ? "hook_resid_pre" : "hook_resid_post");
    config.output = site("hook_resid_post");
  }
  if (config.input.empty())
    config.notes.emplace_back(
        "a transcoder of attention reads the norm's output with its weight, which has no point; say the "
        "input with the site");
}

struct QwenName {
  std::string model;
  std::int64_t thousands, k;
};

/// Of `SAE-Res-<model>-W<N>K-L0_<k>` in a path.
std::optional<QwenName> qwen_name(const std::string& path) {
  constexpr std::string_view kPrefix = "SAE-Res-";
  const auto at = path.rfind(kPrefix);
  if (at == std::string::npos) return std::nullopt;
  const auto end = std::min(path.find('/', at), path.size());
  const std::string name = path.substr(at + kPrefix.size(), end - at - kPrefix.size());
  const auto width = name.rfind("-W");
  const auto thousands = number_after(name, "-W");
  const auto k = number_after(name, "-L0_");
  if (width == std::string::npos || !thousands || !k) return std::nullopt;
  return QwenName{name.substr(0, width), *thousands, *k};
}

DictionaryPlan plan_qwen_file(const std::filesystem::path& file) {
  const auto name = qwen_name(whole_path_text(file));
  if (!name) {
    throw ConfigError(path_text(file),
                      "k is in the name of the repository, which this path does not have; expected a folder "
                      "SAE-Res-<model>-W<N>K-L0_<k> above it; keep the repository's name");
  }
  DictionaryPlan plan;
  DictionaryConfig& config = plan.config;
  config.format = "Qwen Scope";
  config.activation = CodeActivation::top_k;
  config.k = name->k;
  config.model_name = "Qwen/" + name->model;
  config.layer = number_after(file.filename().native(), kQwenBefore);
  if (config.layer) config.input = config.output = site_in_block(*config.layer, "hook_resid_post");
  WeightFile weights(file);
  plan.weights.emplace("W_enc", transposed(weights.take("W_enc")));
  plan.weights.emplace("W_dec", transposed(weights.take("W_dec")));
  for (const char* bias : {"b_enc", "b_dec"}) plan.weights.emplace(bias, weights.take(bias));
  take_sizes_from_weights(plan);
  if (config.features != name->thousands * 1024) {
    throw CheckpointError(path_text(file),
                          fmt::format("it has another number of features than the name of its repository "
                                      "says; expected {}, got {}",
                                      name->thousands * 1024, config.features));
  }
  plan.add_file(weights);
  return plan;
}

}  // namespace

bool is_dictionary_learning(const std::filesystem::path& path) {
  return is_there(path / kAutoencoderFile) && is_there(path / kTrainingConfig);
}

DictionaryPlans plan_dictionary_learning(const std::filesystem::path& path) {
  const std::filesystem::path file = path / kTrainingConfig;
  const ConfigReader reader = reader_of(read_json_object(file), file);
  const ConfigReader trainer = reader.object("trainer");
  const LearningClass& row = class_of(trainer);
  DictionaryPlan plan;
  DictionaryConfig& config = plan.config;
  config.format = "dictionary_learning";
  config.activation = row.activation;
  config.subtracts_decoder_bias = row.subtracts_decoder_bias;
  WeightFile weights(path / kAutoencoderFile);
  plan.weights.emplace("W_enc",
                       row.linear ? transposed(weights.take("encoder.weight")) : weights.take("W_enc"));
  plan.weights.emplace("W_dec",
                       row.linear ? transposed(weights.take("decoder.weight")) : weights.take("W_dec"));
  take_sizes_from_weights(plan);
  plan.weights.emplace("b_dec", weights.take(row.bias));
  if (row.activation == CodeActivation::gated) {
    plan.weights.emplace("b_gate", weights.take("gate_bias"));
    plan.weights.emplace("b_mag", weights.take("mag_bias"));
    plan.weights.emplace("r_mag", weights.take("r_mag"));
  } else {
    plan.weights.emplace("b_enc", weights.take(row.linear ? "encoder.bias" : "b_enc"));
  }
  if (row.activation == CodeActivation::jump_relu)
    plan.weights.emplace("threshold", one_threshold(weights, config.features));
  if (row.activation == CodeActivation::top_k) {
    config.k = trainer.count("k", kMostInConfig);
    weights.ignore("threshold");  // of another form of use: codes are a token's k largest
  }
  for (const char* name : {"k", "group_sizes"}) weights.ignore(name);
  if (row.name.find("BatchTopK") != std::string_view::npos)
    config.notes.emplace_back(
        "trained with the largest codes of a batch; codes are those above the threshold that was saved");
  if (row.name == "GatedAutoEncoder" || row.name == "JumpReluAutoEncoder")
    config.notes.emplace_back(
        "dictionary_learning multiplies codes by decoder norms and divides before it decodes; here codes "
        "are without that factor (with_unit_decoder() has it)");
  take_learning_place(trainer, config);
  Json metadata = Json::object();
  if (const auto buffer = reader.object_if("buffer"); buffer && buffer->has("ctx_len"))
    metadata["context_size"] = buffer->integer("ctx_len");
  config.metadata = json_text(metadata);
  plan.add_file(weights);
  plan.files.push_back(file);
  return {.members = {std::move(plan)}};
}

bool is_sparsify(const std::filesystem::path& path) {
  return is_there(path / kSaeLensConfig) && is_there(path / kSparsifyWeights);
}

DictionaryPlans plan_sparsify(const std::filesystem::path& path) {
  const std::filesystem::path file = path / kSaeLensConfig;
  const ConfigReader reader = reader_of(read_json_object(file), file);
  DictionaryPlan plan;
  DictionaryConfig& config = plan.config;
  config.format = "sparsify";
  const std::string activation = reader.text_or("activation", "topk");
  if (activation != "topk" && activation != "groupmax")
    reader.refuse("activation", "is no activation of sparsify that is read; expected topk or groupmax");
  if (reader.boolean_or("signed", false))
    reader.refuse("signed", "is not read: codes of an early version that keep their sign; expected false");
  config.activation = activation == "topk" ? CodeActivation::top_k : CodeActivation::group_max;
  config.k = reader.count("k", kMostInConfig);
  config.transcodes = reader.boolean_or("transcode", false);
  config.subtracts_decoder_bias = !config.transcodes;
  config.skips = reader.boolean_or("skip_connection", false);
  WeightFile weights(path / kSparsifyWeights);
  plan.weights.emplace("W_enc", transposed(weights.take("encoder.weight")));
  plan.weights.emplace("W_dec", weights.take("W_dec"));
  plan.weights.emplace("b_enc", weights.take("encoder.bias"));
  plan.weights.emplace("b_dec", weights.take("b_dec"));
  if (config.skips) plan.weights.emplace("W_skip", weights.take("W_skip"));
  take_sizes_from_weights(plan);
  if (config.d_in != reader.count("d_in", kMostInConfig))
    reader.refuse("d_in", fmt::format("does not fit the weights; expected {}", config.d_in));
  const std::int64_t stated = reader.has("num_latents") ? reader.count("num_latents", kMostInConfig) : 0;
  const std::int64_t expansion =
      reader.has("expansion_factor") ? reader.count("expansion_factor", kMostInConfig) : 0;
  const std::int64_t wanted = stated > 0 ? stated : expansion * config.d_in;
  if (wanted > 0 && wanted != config.features)
    reader.refuse(stated > 0 ? "num_latents" : "expansion_factor",
                  fmt::format("does not fit the weights; expected {} features", config.features));
  reader.ignore({"normalize_decoder", "multi_topk"});
  config.ignored_keys = reader.unread();
  take_sparsify_place(name_of_folder_at(path), config);
  plan.add_file(weights);
  plan.files.push_back(file);
  return {.members = {std::move(plan)}};
}

bool is_qwen_scope(const std::filesystem::path& path) {
  const std::string name = path.filename().native();
  if (!is_folder(path)) return name.starts_with(kQwenBefore) && name.ends_with(kQwenAfter);
  return !numbered_files(path, kQwenBefore, kQwenAfter).empty();
}

DictionaryPlans plan_qwen_scope(const std::filesystem::path& path) {
  if (!is_folder(path)) return {.members = {plan_qwen_file(path)}};
  DictionaryPlans plans;
  for (const auto& [layer, file] : numbered_files(path, kQwenBefore, kQwenAfter))
    plans.members.push_back(plan_qwen_file(file));
  return plans;
}

}  // namespace hooked
