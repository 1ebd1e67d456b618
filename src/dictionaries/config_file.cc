#include "dictionaries/config_file.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "core/name_list.h"
#include "dictionaries/site_names.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/io/file.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

constexpr std::uint64_t kConfigBytes = std::uint64_t{1} << 20;

// SAELens loads models without processing, except for what these arguments turn on.
void take_basis(const ConfigReader& kwargs, DictionaryConfig& config) {
  DictionaryBasis& basis = config.basis;
  basis.folded_norms = kwargs.boolean_or("fold_ln", false);
  basis.centred_writes = kwargs.boolean_or("center_writing_weights", false);
  basis.centred_unembedding = kwargs.boolean_or("center_unembed", false);
  basis.folded_value_biases = kwargs.boolean_or("fold_value_biases", false);
  if (kwargs.boolean_or("refactor_factored_attn_matrices", false)) {
    config.notes.emplace_back(
        "its model had refactored attention matrices: the values of queries, keys, values and z are others "
        "than those of "
        "the weights as stored");
  }
  if (const auto others = kwargs.unread(); !others.empty()) {
    config.notes.push_back(
        fmt::format("model_from_pretrained_kwargs has arguments that say nothing about processing "
                    "here: {}",
                    name_list(others)));
  }
}

void take_excluded(const ConfigReader& reader, DictionaryConfig& config) {
  constexpr std::string_view kKey = "exclude_special_tokens";
  if (!reader.has(kKey)) return;
  if (reader.holds_list(kKey)) {
    config.excluded.ids = reader.integers(kKey);
  } else {
    config.excluded.special = reader.boolean(kKey);
  }
}

}  // namespace

Json read_json_object(const std::filesystem::path& file) {
  try {
    Json json = parse_python_json(read_text_file(file, kConfigBytes), {.bytes = kConfigBytes});
    if (json.is_object()) return json;
    throw ConfigError(path_text(file),
                      fmt::format("this is no config; expected a JSON object, got {}", json_kind(json)));
  } catch (const std::invalid_argument& error) {
    throw ConfigError(path_text(file), error.what());
  }
}

ConfigReader reader_of(Json document, const std::filesystem::path& file) {
  return {std::move(document), path_text(file), make_error<ConfigError>};
}

at::ScalarType dtype_at(const ConfigReader& reader, std::string_view key) {
  constexpr std::string_view kPrefix = "torch.";
  const std::string text = reader.text(key);
  const auto dtype = parse_float_dtype(text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : text);
  if (!dtype)
    reader.refuse(key, "is no dtype of dictionaries; expected float32, float64, float16 or bfloat16");
  return *dtype;
}

void take_metadata(Json metadata, const std::filesystem::path& file, DictionaryConfig& config) {
  config.metadata = json_text(metadata);
  const ConfigReader reader = reader_of(std::move(metadata), file);
  config.model_name = reader.text_or("model_name", "");
  config.input = reader.text_or("hook_name", "");
  config.output = reader.text_or("hook_name_out", config.input);
  if (config.output.empty()) config.output = config.input;
  config.layer = layer_of_site(config.input);
  if (reader.has("hook_head_index")) config.head = reader.count("hook_head_index", kMostInConfig);
  if (const auto kwargs = reader.object_if("model_from_pretrained_kwargs")) take_basis(*kwargs, config);
  take_excluded(reader, config);
  if (config.input.empty())
    config.notes.emplace_back(
        "the files do not say which activation it reads (metadata.hook_name); say it with the site");
}

Json metadata_of(const DictionaryConfig& config) {
  Json metadata;
  try {
    metadata = parse_json(config.metadata, {});
  } catch (const std::invalid_argument& error) {
    throw ConfigError("metadata of a dictionary", error.what());
  }
  if (!metadata.is_object()) {
    throw ConfigError("metadata of a dictionary",
                      fmt::format("this is no object; expected one, got {}", json_kind(metadata)));
  }
  const auto set = [&](const char* key, Json value) {
    if (!metadata.contains(key) || metadata.at(key).is_null()) metadata[key] = std::move(value);
  };
  if (!config.model_name.empty()) set("model_name", config.model_name);
  if (!config.input.empty()) metadata["hook_name"] = config.input;
  if (config.output != config.input && !config.output.empty()) metadata["hook_name_out"] = config.output;
  if (config.head) set("hook_head_index", *config.head);
  if (config.excluded.special) set("exclude_special_tokens", true);
  if (!config.excluded.ids.empty()) set("exclude_special_tokens", config.excluded.ids);
  const DictionaryBasis& basis = config.basis;
  if (basis != DictionaryBasis{}) {
    set("model_from_pretrained_kwargs", Json{{"fold_ln", basis.folded_norms},
                                             {"center_writing_weights", basis.centred_writes},
                                             {"center_unembed", basis.centred_unembedding},
                                             {"fold_value_biases", basis.folded_value_biases}});
  }
  return metadata;
}

}  // namespace hooked
