// circuit-tracer's sets of transcoders: a file for each layer, or cross-layer transcoders with two files for
// each layer, with a config.yaml that names their activations and may name files of other repositories.
#include <fmt/format.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/name_list.h"
#include "dictionaries/config_file.h"
#include "dictionaries/formats.h"
#include "dictionaries/site_names.h"
#include "dictionaries/yaml.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/io/file.h"
#include "hooked/io/hub_cache.h"
#include "io/checkpoint/model_files.h"
#include "io/files/hub_name.h"
#include "io/files/path_text.h"
#include "io/tensors/npz_tensors.h"

namespace hooked {
namespace {

constexpr const char* kSetConfig = "config.yaml";
constexpr std::uint64_t kYamlBytes = std::uint64_t{1} << 20;
constexpr std::string_view kLayerBefore = "layer_";
constexpr std::string_view kEncoderBefore = "W_enc_";
constexpr std::string_view kDecoderBefore = "W_dec_";
constexpr std::string_view kHubPrefix = "hf://";

/// What a config.yaml says about all transcoders.
struct SetConfig {
  std::string kind, model, input, output, scan, activation;
  std::int64_t k = 0;
  std::vector<std::string> transcoders;
  std::vector<std::string> ignored;
};

ConfigReader yaml_reader(const std::filesystem::path& file) {
  try {
    return reader_of(parse_flat_yaml(read_text_file(file, kYamlBytes)), file);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(path_text(file), error.what());
  }
}

SetConfig read_set_config(const std::filesystem::path& file) {
  const ConfigReader reader = yaml_reader(file);
  SetConfig set;
  set.kind = reader.text_or("model_kind", "transcoder_set");
  if (set.kind != "transcoder_set" && set.kind != "cross_layer_transcoder")
    reader.refuse(
        "model_kind",
        "is no kind of dictionaries that is read; expected transcoder_set or cross_layer_transcoder");
  set.model = reader.text_or("model_name", "");
  set.input = reader.text_or("feature_input_hook", "");
  set.output = reader.text_or("feature_output_hook", "");
  if (reader.holds_text("scan")) set.scan = reader.text("scan");
  reader.ignore({"scan", "model_kind"});
  set.activation = reader.text_or("activation", "");
  if (reader.has("k")) set.k = reader.count("k", kMostInConfig);
  if (reader.has("transcoders")) set.transcoders = reader.texts("transcoders");
  set.ignored = reader.unread();
  return set;
}

/// `hf://org/name/path`, with `@revision` or `?revision=` after it.
HubName hub_name_of(const std::string& entry, const std::filesystem::path& file) {
  std::string rest = entry.substr(kHubPrefix.size());
  std::string revision(kMainRevision);
  for (const std::string_view mark : {"?revision=", "@"}) {
    const auto at = rest.rfind(mark);
    if (at == std::string::npos) continue;
    revision = rest.substr(at + mark.size());
    rest.resize(at);
    break;
  }
  const auto slash = rest.find('/');
  const auto second = slash == std::string::npos ? slash : rest.find('/', slash + 1);
  const auto name = second == std::string::npos
                        ? std::nullopt
                        : parse_hub_name(fmt::format("{}@{}:{}", rest.substr(0, second), revision,
                                                     rest.substr(second + 1)));
  if (name) return *name;
  throw ConfigError(
      fmt::format("{}: transcoders", path_text(file)),
      fmt::format("'{}' is not a file of the hub; expected hf://org/name/path[@revision]", printable(entry)));
}

/// The files of a config's entries. Those of the hub are looked up in its cache; all that are missing are
/// named.
std::vector<std::filesystem::path> files_of(const SetConfig& set, const std::filesystem::path& config) {
  std::vector<std::filesystem::path> files;
  std::vector<std::string> missing, commands;
  const HubCache cache = hub_cache();
  for (const std::string& entry : set.transcoders) {
    if (entry.starts_with(kHubPrefix)) {
      const HubName name = hub_name_of(entry, config);
      files.push_back(places_of(name, cache).snapshot / name.file);
      if (is_there(files.back())) continue;
      missing.push_back(entry);
      const std::string command = download_command(name);
      if (commands.size() < 3) commands.push_back(fmt::format("`{}`", command));
      continue;
    }
    if (!is_path_below(entry)) {
      throw ConfigError(
          fmt::format("{}: transcoders", path_text(config)),
          fmt::format("'{}' leads out of the folder; expected a path below it, or hf://org/name/path",
                      printable(entry)));
    }
    files.push_back(config.parent_path() / entry);
    if (!is_there(files.back())) missing.push_back(entry);
  }
  if (missing.empty()) return files;
  std::string how;
  for (const std::string& command : commands) how += fmt::format("{}{}", how.empty() ? "; " : ", ", command);
  if (!how.empty()) how += missing.size() > commands.size() ? " and so on download them" : " downloads them";
  throw CheckpointError(path_text(config),
                        fmt::format("{} of its {} transcoders are not there: {}{}", missing.size(),
                                    set.transcoders.size(), name_list(missing), how));
}

// In circuit-tracer neither JumpReLU nor top-k makes codes positive.
void take_activation_of(const SetConfig& set, const std::filesystem::path& where, DictionaryConfig& config) {
  config.rectified = config.activation == CodeActivation::relu;
  if (set.activation.empty() || set.activation == "jump_relu" || set.activation == "jumprelu" ||
      set.activation == "relu") {
    const bool says_relu = set.activation == "relu";
    if (!set.activation.empty() && says_relu != (config.activation == CodeActivation::relu)) {
      throw ConfigError(
          fmt::format("{}: activation", path_text(where)),
          fmt::format("'{}' does not fit the files; expected {}, which has what their tensors say",
                      set.activation, code_activation_name(config.activation)));
    }
    return;
  }
  if (set.activation != "topk" && set.activation != "top_k") {
    throw ConfigError(fmt::format("{}: activation", path_text(where)),
                      fmt::format("'{}' is no activation that is read; expected relu, jump_relu or topk",
                                  printable(set.activation)));
  }
  config.activation = CodeActivation::top_k;
  config.rectified = false;
  config.k = set.k;
}

void take_set(const SetConfig& set, const std::filesystem::path& where, std::int64_t layer,
              DictionaryPlan& plan) {
  DictionaryConfig& config = plan.config;
  config.layer = layer;
  config.transcodes = true;
  config.flattens_heads = false;
  if (!set.model.empty()) config.model_name = set.model;
  if (!set.input.empty()) config.input = site_in_block(layer, set.input);
  if (!set.output.empty()) config.output = site_in_block(layer, set.output);
  take_activation_of(set, where, config);
  if (config.activation == CodeActivation::top_k) plan.weights.erase("threshold");
}

/// Whether a config.yaml is one of transcoders: other programs have files of that name.
bool says_transcoders(const std::filesystem::path& file) {
  if (!is_there(file)) return false;
  try {
    const std::string text = read_text_file(file, kYamlBytes);
    return text.find("model_kind") != std::string::npos ||
           text.find("feature_input_hook") != std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

/// The transcoder of a `layer_<i>.safetensors`.
DictionaryPlan plan_layer(const std::filesystem::path& file) {
  DictionaryPlan plan;
  DictionaryConfig& config = plan.config;
  config.format = "circuit-tracer";
  config.transcodes = true;
  WeightFile weights(file);
  plan.weights.emplace("W_enc", transposed(weights.take("W_enc")));
  plan.weights.emplace("W_dec", weights.take("W_dec"));
  for (const char* bias : {"b_enc", "b_dec"}) plan.weights.emplace(bias, weights.take(bias));
  if (weights.has("activation_function.threshold")) {
    config.activation = CodeActivation::jump_relu;
    plan.weights.emplace("threshold", weights.take("activation_function.threshold"));
  }
  config.skips = weights.has("W_skip");
  if (config.skips) plan.weights.emplace("W_skip", weights.take("W_skip"));
  take_sizes_from_weights(plan);
  plan.add_file(weights);
  return plan;
}

DictionaryPlan plan_cross_layer_file(const std::filesystem::path& encoder,
                                     const std::filesystem::path& decoder, std::int64_t layer) {
  DictionaryPlan plan;
  DictionaryConfig& config = plan.config;
  config.format = "circuit-tracer";
  config.transcodes = config.crosses_layers = true;
  WeightFile encodes(encoder), decodes(decoder);
  const auto name = [&](std::string_view tensor) { return fmt::format("{}_{}", tensor, layer); };
  plan.weights.emplace("W_enc", transposed(encodes.take(name("W_enc"))));
  plan.weights.emplace("b_enc", encodes.take(name("b_enc")));
  plan.weights.emplace("b_dec", encodes.take(name("b_dec")));
  plan.weights.emplace("W_dec", decodes.take(name("W_dec")));
  if (encodes.has(name("threshold"))) {
    config.activation = CodeActivation::jump_relu;
    StoredWeight threshold = encodes.take(name("threshold"));
    if (threshold.shape.size() == 2 && threshold.shape[0] == 1)
      threshold = changed(std::move(threshold), {plan.weights.at("W_enc").shape[1]},
                          [](const at::Tensor& x) { return x.squeeze(0); });
    plan.weights.emplace("threshold", std::move(threshold));
  }
  take_sizes_from_weights(plan);
  plan.add_file(encodes);
  plan.add_file(decodes);
  return plan;
}

DictionaryPlan plan_entry(const std::filesystem::path& file, std::int64_t layer) {
  if (file.native().ends_with(kNpzEnding)) return plan_gemma_params(file, /*transcodes=*/true);
  return has_gemma_2_names(file) ? plan_gemma_2_params(file, layer) : plan_layer(file);
}

/// Everything is in the folder itself.
void plan_folder(const std::filesystem::path& folder, const SetConfig& set, DictionaryPlans& plans) {
  const auto encoders = numbered_files(folder, kEncoderBefore, kSafetensorsEnding);
  const auto decoders = numbered_files(folder, kDecoderBefore, kSafetensorsEnding);
  const auto require_all = [&](const auto& there, const auto& needed_for, std::string_view before) {
    for (const auto& [layer, file] : needed_for) {
      if (there.contains(layer)) continue;
      throw CheckpointError(path_text(folder),
                            fmt::format("{}{}{} is missing; expected one next to {}; "
                                        "download it as well",
                                        before, layer, kSafetensorsEnding, path_text(file.filename())));
    }
  };
  require_all(encoders, decoders, kEncoderBefore);
  require_all(decoders, encoders, kDecoderBefore);
  for (const auto& [layer, encoder] : encoders) {
    plans.members.push_back(plan_cross_layer_file(
        encoder, folder / fmt::format("{}{}{}", kDecoderBefore, layer, kSafetensorsEnding), layer));
    take_set(set, folder / kSetConfig, layer, plans.members.back());
  }
  if (!encoders.empty()) return;
  for (const auto& [layer, file] : numbered_files(folder, kLayerBefore, kSafetensorsEnding)) {
    plans.members.push_back(plan_layer(file));
    take_set(set, folder / kSetConfig, layer, plans.members.back());
  }
}

}  // namespace

bool is_circuit_tracer(const std::filesystem::path& path) {
  if (!is_folder(path)) {
    const std::string name = path.filename().native();
    return name.starts_with(kLayerBefore) && name.ends_with(kSafetensorsEnding) && is_there(path);
  }
  return says_transcoders(path / kSetConfig) ||
         !numbered_files(path, kLayerBefore, kSafetensorsEnding).empty() ||
         !numbered_files(path, kEncoderBefore, kSafetensorsEnding).empty();
}

DictionaryPlans plan_circuit_tracer(const std::filesystem::path& path) {
  DictionaryPlans plans;
  if (!is_folder(path)) {
    plans.members.push_back(plan_layer(path));
    take_set({}, path, number_after(path.filename().native(), kLayerBefore).value_or(0),
             plans.members.back());
  } else {
    const std::filesystem::path config = path / kSetConfig;
    const SetConfig set = is_there(config) ? read_set_config(config) : SetConfig{};
    plans.scan = set.scan;
    if (!set.ignored.empty())
      plans.notes.push_back(
          fmt::format("config.yaml has keys that nothing reads: {}", name_list(set.ignored)));
    if (set.transcoders.empty()) {
      plan_folder(path, set, plans);
    } else {
      std::int64_t layer = 0;
      for (const std::filesystem::path& file : files_of(set, config)) {
        plans.members.push_back(plan_entry(file, layer));
        take_set(set, config, layer++, plans.members.back());
      }
    }
    const bool crosses = set.kind == "cross_layer_transcoder";
    for (const DictionaryPlan& plan : plans.members) {
      if (set.kind.empty() || plan.config.crosses_layers == crosses) continue;
      throw CheckpointError(
          path_text(config),
          fmt::format("model_kind is {}, but [{}] is {}; expected files of that kind", set.kind,
                      path_text(plan.files.front()), architecture_text(plan.config)));
    }
    if (plans.members.empty())
      throw CheckpointError(
          path_text(path),
          "the folder has a config.yaml, but no transcoders; expected layer_<i>.safetensors, "
          "W_enc_<i>.safetensors, or a list of transcoders in the config");
  }
  if (plans.members.front().config.input.empty())
    plans.notes.emplace_back(
        "nothing says which activations the transcoders read and write (config.yaml: feature_input_hook, "
        "feature_output_hook)");
  return plans;
}

}  // namespace hooked
