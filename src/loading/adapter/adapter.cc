#include "loading/adapter/adapter.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <exception>
#include <stdexcept>
#include <utility>

#include "core/config_reader.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "hooked/io/model_folder.h"
#include "io/checkpoint/model_files.h"
#include "io/files/hub_name.h"
#include "io/files/path_text.h"
#include "loading/config/open_checkpoint.h"
#include "text/strings/pattern.h"

namespace hooked {
namespace {

constexpr std::string_view kConfig = "adapter_config.json";
constexpr std::string_view kBase = "base_model_name_or_path";
constexpr std::array<std::string_view, 2> kWeights = {"adapter_model.safetensors", "adapter_model.bin"};

ConfigReader config_of(const std::filesystem::path& folder) {
  const auto file = folder / kConfig;
  return {read_text_file(file, kModelConfigBytes), path_text(file)};
}

// Where the base model is, and how the adapter names it.
std::pair<std::string, std::filesystem::path> locate_base(const std::filesystem::path& folder,
                                                          const ConfigReader& config) {
  if (!config.has(kBase) || config.text(kBase).empty()) {
    throw ConfigError(config.where(kBase),
                      "the adapter names no base model; expected a folder or org/name; write the model there "
                      "that the adapter was made for");
  }
  const std::string named = config.text(kBase), revision = config.text_or("revision", "");
  const std::filesystem::path path(named);
  std::string base = named;
  std::filesystem::path place;
  if (path.is_relative() && is_folder(folder / path)) {
    place = locate_model((folder / path).native());
  } else {
    if (!revision.empty() && !is_folder(path)) base += "@" + revision;
    try {
      place = locate_model(base);
    } catch (const CheckpointError& error) {
      throw CheckpointError(config.where(kBase), fmt::format("the adapter's base model '{}': {}",
                                                             path_text(base), error.message()));
    }
  }
  if (is_adapter(place)) {
    throw CheckpointError(config.where(kBase),
                          fmt::format("the adapter's base model '{}' is an adapter itself; expected a whole "
                                      "model; merge that adapter first",
                                      path_text(base)));
  }
  return {std::move(base), std::move(place)};
}

// Matches `(.*\.)?(key)$` from the beginning of a module's path, as PEFT does.
std::vector<ModulePattern> read_patterns(const ConfigReader& config, std::string_view key) {
  std::vector<ModulePattern> patterns;
  const auto group = config.object_if(key);
  if (!group) return patterns;
  for (const std::string& module : group->keys()) {
    try {
      patterns.push_back(
          {.module = std::make_shared<text::Regex>(fmt::format(R"(\A(?:.*\.)?(?:{})\z)", module)),
           .value = group->number(module)});
    } catch (const std::invalid_argument& error) {
      group->refuse(module,
                    fmt::format("is for no regular expression of modules ({}); expected one", error.what()));
    }
  }
  return patterns;
}

const ModulePattern* find(const std::vector<ModulePattern>& patterns, std::string_view module,
                          std::string_view config_where) try {
  for (const ModulePattern& pattern : patterns) {
    bool fits = false;
    pattern.module->for_each_match(module, [&](TextSpan) { fits = true; });
    if (fits) return &pattern;
  }
  return nullptr;
} catch (const TokenizerError& error) {
  throw ConfigError(config_where, fmt::format("a pattern of modules: {}", error.message()));
}

void refuse_set(const ConfigReader& config, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (!config.is_unset(key)) config.refuse(key, "is not supported; expected null, false or no such key");
  }
}

// Initialisations that change the base model's own weights: the saved weights belong to the changed ones.
void check_initialisation(const ConfigReader& config) {
  constexpr std::string_view kKey = "init_lora_weights";
  if (!config.holds_text(kKey)) return config.ignore({kKey});
  const std::string name = config.text(kKey);
  if (name == "gaussian" || name == "orthogonal" || name == "eva") return;
  config.refuse(kKey,
                "is not supported, since it begins with other weights than the base model's; expected true, "
                "false, gaussian, orthogonal or eva; in Python save_pretrained(…, "
                "path_initial_model_for_weight_conversion=…) writes the adapter as LoRA of the base model");
}

void check_kind(const ConfigReader& config) {
  constexpr std::string_view kKind = "peft_type";
  if (config.text(kKind) != "LORA") config.refuse(kKind, "is not supported; expected LORA");
  constexpr std::string_view kBias = "bias";
  const std::string bias = config.text_or(kBias, "none");
  if (bias != "none" && bias != "all" && bias != "lora_only")
    config.refuse(kBias, "is not supported; expected none, all or lora_only");
}

// Keys about training, and keys whose content the adapter's tensors show.
void ignore_what_was_for_training(const ConfigReader& config) {
  config.ignore({"auto_mapping", "corda_config", "eva_config", "exclude_modules", "fan_in_fan_out",
                 "inference_mode", "layers_pattern", "layers_to_transform", "loftq_config", "lora_dropout",
                 "lora_ga_config", "megatron_core", "modules_to_save", "peft_version", "qalora_group_size",
                 "revision", "runtime_config", "target_modules", "task_type"});
}

CheckpointReader open_weights(const std::filesystem::path& folder) {
  for (const std::string_view name : kWeights) {
    if (is_there(folder / name)) return CheckpointReader::open_file(folder / name);
  }
  throw CheckpointError(path_text(folder),
                        fmt::format("the adapter has no weights; expected {} or {} next to {}; fetch it {}",
                                    kWeights[0], kWeights[1], kConfig, how_to_fetch(folder)));
}

}  // namespace

std::int64_t Adapter::rank_of(std::string_view module) const {
  const ModulePattern* pattern = find(ranks, module, config_where);
  return pattern == nullptr ? rank : static_cast<std::int64_t>(pattern->value);
}

double Adapter::scale_of(std::string_view module, std::int64_t rank_there) const {
  const ModulePattern* pattern = find(alphas, module, config_where);
  const auto r = static_cast<double>(rank_there);
  return (pattern == nullptr ? alpha : pattern->value) / (rank_stabilised ? std::sqrt(r) : r);
}

bool is_adapter(const std::filesystem::path& located) {
  return is_folder(located) && is_there(located / kConfig) && !has_model_file(located);
}

bool has_adapter_beside(const std::filesystem::path& located) {
  return is_folder(located) && is_there(located / kConfig) && has_model_file(located);
}

std::optional<Adapter> read_adapter(const std::filesystem::path& located) {
  if (!is_adapter(located)) return std::nullopt;
  const ConfigReader config = config_of(located);
  check_kind(config);
  check_initialisation(config);
  // Adapters that are not the base model's weights plus low-rank products, or not for every token.
  refuse_set(config, {"alora_invocation_tokens", "arrow_config", "ensure_weight_tying", "kasa_config",
                      "layer_replication", "megatron_config", "monteclora_config", "target_parameters",
                      "trainable_token_indices", "use_bdlora", "use_qalora", "velora_config"});
  ignore_what_was_for_training(config);
  const std::int64_t rank = config.integer_or("r", 8);  // PEFT's default
  if (rank < 1) config.refuse("r", "is not a rank; expected a number above 0");
  auto [base, place] = locate_base(located, config);
  Adapter adapter{.folder = located,
                  .base = std::move(base),
                  .base_place = std::move(place),
                  .config_where = config.where(),
                  .rank = rank,
                  .alpha = config.number_or("lora_alpha", 8),
                  .ranks = read_patterns(config, "rank_pattern"),
                  .alphas = read_patterns(config, "alpha_pattern"),
                  .rank_stabilised = config.boolean_or("use_rslora", false),
                  .dora = config.boolean_or("use_dora", false),
                  .bias = config.boolean_or("lora_bias", false),
                  .reader = open_weights(located)};
  config.refuse_unread();
  return adapter;
}

std::filesystem::path base_of(const std::filesystem::path& located) {
  return is_adapter(located) ? locate_base(located, config_of(located)).second : located;
}

}  // namespace hooked
