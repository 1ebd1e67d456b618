// Gemma Scope (params.npz) and Gemma Scope 2 (params.safetensors). Which site a dictionary belongs to is said
// by the names of the repository and its folders, and in Gemma Scope 2 by a config.json that some folders
// lack.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "dictionaries/config_file.h"
#include "dictionaries/formats.h"
#include "dictionaries/site_names.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "io/checkpoint/model_files.h"
#include "io/files/hub_name.h"
#include "io/files/path_text.h"
#include "io/tensors/npz_tensors.h"

namespace hooked {
namespace {

constexpr const char* kNpzFile = "params.npz";
constexpr const char* kSafetensorsFile = "params.safetensors";
constexpr const char* kGemmaConfig = "config.json";
constexpr std::string_view kLayerFile = "params_layer_";

/// The repository's name after `gemma-scope-`: `2b-pt-res`; empty if the path does not have it.
std::string repository_of(const std::string& path) {
  constexpr std::string_view kName = "gemma-scope-";
  const auto at = path.rfind(kName);
  if (at == std::string::npos) return {};
  const auto begin = at + kName.size();
  return path.substr(begin, std::min(path.find('/', begin), path.size()) - begin);
}

struct GemmaSite {
  std::string_view repository;  ///< how its name ends
  std::string_view input, output;
  bool transcodes = false;
};
constexpr std::array<GemmaSite, 4> kSites = {{{"-res", "hook_resid_post", "hook_resid_post"},
                                              {"-mlp", "hook_mlp_out", "hook_mlp_out"},
                                              {"-att", "attn.hook_z", "attn.hook_z"},
                                              {"-transcoders", "ln2.hook_normalized", "hook_mlp_out", true}}};

const GemmaSite* site_by_repository(std::string_view repository) {
  for (const GemmaSite& site : kSites) {
    if (repository.ends_with(site.repository)) return &site;
  }
  return nullptr;
}

/// `gemma-2-2b` of `2b-pt-res`.
std::string model_by_repository(const std::string& repository) {
  const auto size = repository.substr(0, repository.find('-'));
  return size.empty()
             ? std::string()
             : fmt::format("gemma-2-{}{}", size, repository.find("-it-") != std::string::npos ? "-it" : "");
}

void take_place(const std::string& path, DictionaryConfig& config) {
  const std::string repository = repository_of(path);
  config.model_name = model_by_repository(repository);
  config.layer = number_after(path, "layer_");
  const GemmaSite* site = site_by_repository(repository);
  if (site == nullptr || !config.layer) {
    config.notes.emplace_back(
        "the file does not say which activation it reads, and neither does its path "
        "(google/gemma-scope-…-res, -mlp, -att "
        "or -transcoders, and layer_<i>); say it with the site");
    return;
  }
  config.input = site_in_block(*config.layer, site->input);
  config.output = site_in_block(*config.layer, site->output);
  config.flattens_heads = site->input == "attn.hook_z";
}

void take_module(const std::string& module, std::string_view key, std::string& site,
                 DictionaryConfig& config) {
  if (const auto found = site_of_module(module)) {
    site = *found;
  } else {
    config.notes.push_back(fmt::format(
        "{} is '{}', which is no activation that is known here; say it with the site", key, module));
  }
}

/// What a config.json says, or for folders without one what their names say.
struct Modules {
  std::string in, out, model;
};

Modules modules_by_path(const std::string& path) {
  const auto layer = number_after(path, "layer_");
  const auto has = [&](std::string_view word) { return path.find(word) != std::string::npos; };
  Modules found;
  if (!layer) return found;
  const auto module = [&](std::string_view name) { return fmt::format("model.layers.{}.{}", *layer, name); };
  if (has("transcoder") || has("/clt")) {
    found.in = module("pre_feedforward_layernorm.output");
    found.out = module("post_feedforward_layernorm.output");
  } else if (has("resid_post")) {
    found.in = module("output");
  } else if (has("attn_out")) {
    found.in = module("self_attn.o_proj.input");
  } else if (has("mlp_out")) {
    found.in = module("post_feedforward_layernorm.output");
  }
  return found;
}

Modules modules_of(const std::filesystem::path& folder, const std::string& path, DictionaryConfig& config) {
  const std::filesystem::path file = folder / kGemmaConfig;
  if (!is_there(file)) return modules_by_path(path);
  const ConfigReader reader = reader_of(read_json_object(file), file);
  if (reader.text_or("architecture", "jump_relu") != "jump_relu")
    reader.refuse("architecture", "is no architecture of Gemma Scope 2 that is known; expected jump_relu");
  Modules found{.in = reader.text_or("hf_hook_point_in", ""),
                .out = reader.text_or("hf_hook_point_out", ""),
                .model = reader.text_or("model_name", "")};
  reader.ignore({"affine_connection", "width", "l0", "type"});
  config.ignored_keys = reader.unread();
  return found;
}

void take_place_2(const std::filesystem::path& file, DictionaryPlan& plan) {
  DictionaryConfig& config = plan.config;
  const Modules modules = modules_of(file.parent_path(), whole_path_text(file), config);
  config.model_name = modules.model;
  if (modules.in.empty()) {
    config.notes.emplace_back(
        "neither a config.json nor the names of its folders say which activation it reads; say it "
        "with the site");
    return;
  }
  take_module(modules.in, "hf_hook_point_in", config.input, config);
  config.output = config.input;
  if (config.transcodes && !modules.out.empty())
    take_module(modules.out, "hf_hook_point_out", config.output, config);
  config.layer = layer_of_site(config.input);
  config.flattens_heads = config.input.ends_with("attn.hook_z");
  if (config.input.ends_with("mlp.hook_in")) {
    config.notes.emplace_back(
        "it reads the norm's output with its weight (mlp.hook_in); SAELens says hook_mlp_in, which "
        "is before the norm");
  }
}

}  // namespace

bool is_gemma_scope(const std::filesystem::path& path) {
  return path.native().ends_with(kNpzEnding) || is_there(path / kNpzFile);
}

DictionaryPlan plan_gemma_params(const std::filesystem::path& file, bool transcodes) {
  DictionaryPlan plan;
  DictionaryConfig& config = plan.config;
  config.format = "Gemma Scope";
  config.activation = CodeActivation::jump_relu;
  WeightFile weights(file);
  plan.weights.emplace("W_enc", weights.take_any({"W_enc", "w_enc"}));
  plan.weights.emplace("W_dec", weights.take_any({"W_dec", "w_dec"}));
  for (const char* name : {"b_enc", "b_dec", "threshold"}) plan.weights.emplace(name, weights.take(name));
  take_sizes_from_weights(plan);
  const std::string path = whole_path_text(file);
  if (path.find("/embedding") != std::string::npos) {  // trained on embeddings without the factor of a run
    const double scale = std::sqrt(static_cast<double>(config.d_in));
    plan.weights.at("W_enc") = times(plan.weights.at("W_enc"), 1 / scale);
    plan.weights.at("W_dec") = times(plan.weights.at("W_dec"), scale);
    config.model_name = model_by_repository(repository_of(path));
    config.input = config.output = "hook_embed";
    config.notes.emplace_back(
        "of embeddings: W_enc is divided and W_dec multiplied by sqrt(d_in), since a run's "
        "embeddings are multiplied by it; b_dec is as stored");
  } else {
    if (!transcodes) take_place(path, config);
    const GemmaSite* site = site_by_repository(repository_of(path));
    config.transcodes = transcodes || (site != nullptr && site->transcodes);
  }
  config.metadata = R"({"prepend_bos":true})";
  plan.add_file(weights);
  return plan;
}

DictionaryPlans plan_gemma_scope(const std::filesystem::path& path) {
  const bool file = path.native().ends_with(kNpzEnding);
  return {.members = {plan_gemma_params(file ? path : path / kNpzFile, false)}};
}

bool has_gemma_2_names(const std::filesystem::path& file) {
  try {
    return WeightFile(file).has("w_enc");
  } catch (const Error&) {
    return false;
  }
}

bool is_gemma_scope_2(const std::filesystem::path& path) {
  if (path.filename() == kSafetensorsFile) return true;
  if (path.filename().native().starts_with(kLayerFile)) return !is_folder(path);
  return is_there(path / kSafetensorsFile) || !numbered_files(path, kLayerFile, kSafetensorsEnding).empty();
}

DictionaryPlan plan_gemma_2_params(const std::filesystem::path& file, std::int64_t layer) {
  DictionaryPlan plan;
  DictionaryConfig& config = plan.config;
  config.format = "Gemma Scope 2";
  config.activation = CodeActivation::jump_relu;
  WeightFile weights(file);
  plan.weights.emplace("W_enc", weights.take("w_enc"));
  plan.weights.emplace("W_dec", weights.take("w_dec"));
  for (const char* name : {"b_enc", "b_dec", "threshold"}) plan.weights.emplace(name, weights.take(name));
  config.crosses_layers = plan.weights.at("W_dec").shape.size() == 3;
  config.skips = weights.has("affine_skip_connection");
  const std::string path = whole_path_text(file);
  config.transcodes = config.crosses_layers || config.skips || path.find("transcoder") != std::string::npos;
  if (config.skips) plan.weights.emplace("W_skip", transposed(weights.take("affine_skip_connection")));
  take_place_2(file, plan);
  config.transcodes = config.transcodes || config.output != config.input;
  if (config.crosses_layers) {
    StoredWeight& W_dec = plan.weights.at("W_dec");
    const std::int64_t layers = W_dec.shape[1];
    if (layer < 0 || layer >= layers) {
      throw CheckpointError(W_dec.where,
                            fmt::format("it has no layer {}, that of the file's name; expected one of its "
                                        "{}, got {}",
                                        layer, layers, shape_text(W_dec.shape)));
    }
    // One config.json may stand for all layers: only the name inside the block is taken from it.
    for (std::string* site : {&config.input, &config.output}) {
      if (layer_of_site(*site)) *site = site_in_block(layer, name_in_block(*site));
    }
    config.layer = layer;
    W_dec = changed(W_dec, {W_dec.shape[0], layers - layer, W_dec.shape[2]},
                    [layer](const at::Tensor& x) { return x.slice(1, layer); });
  }
  take_sizes_from_weights(plan);
  config.metadata = R"({"prepend_bos":true})";
  plan.add_file(weights);
  return plan;
}

DictionaryPlans plan_gemma_scope_2(const std::filesystem::path& path) {
  const auto layer_of = [](const std::filesystem::path& file) {
    return number_after(file.filename().native(), "layer_").value_or(-1);
  };
  if (!is_folder(path)) return {.members = {plan_gemma_2_params(path, layer_of(path))}};
  if (is_there(path / kSafetensorsFile))
    return {.members = {plan_gemma_2_params(path / kSafetensorsFile, -1)}};
  DictionaryPlans plans;
  for (const auto& [layer, file] : numbered_files(path, kLayerFile, kSafetensorsEnding))
    plans.members.push_back(plan_gemma_2_params(file, layer));
  return plans;
}

}  // namespace hooked
