#include "loading/storage/storage_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config_reader.h"
#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "io/checkpoint/model_files.h"
#include "io/files/path_text.h"
#include "loading/config/open_checkpoint.h"

namespace hooked {
namespace {

constexpr std::string_view kFiles[] = {"quantize_config.json", "quant_config.json"};

/// Names that mean one number in either file.
constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
    {"quant_method", "quant_method"}, {"bits", "w_bit"}, {"group_size", "q_group_size"},
    {"desc_act", "desc_act"},         {"sym", "sym"},    {"zero_point", "zero_point"},
    {"checkpoint_format", "format"},
};

Json value_of(const Json& group, const std::pair<std::string_view, std::string_view>& names) {
  for (const std::string_view name : {names.first, names.second}) {
    if (const auto found = group.find(name); found != group.end() && !found->is_null()) return *found;
  }
  return nullptr;
}

Json parsed(const std::string& text, const std::string& where) {
  try {
    Json json = parse_json(text, {.bytes = kModelConfigBytes});
    if (json.is_object()) return json;
  } catch (const std::invalid_argument& reason) {
    throw ConfigError(where, reason.what());
  }
  throw ConfigError(where, "is not an object; expected how the weights are quantised");
}

// Differences of the file from config.json's group.
std::vector<std::string> contradictions(const Json& file, const Json& group) {
  std::vector<std::string> found;
  for (const auto& names : kSpellings) {
    const Json here = value_of(file, names), there = value_of(group, names);
    if (!here.is_null() && !there.is_null() && here != there)
      found.push_back(
          fmt::format("{} {}, not {}", names.first, printable(json_text(here)), printable(json_text(there))));
  }
  return found;
}

Json group_of(const ConfigText& config) {
  const Json whole = parse_json(config.text, {.bytes = kModelConfigBytes});
  const auto group_in = [](const Json& object) {
    const auto found = object.find(kQuantisationKey);
    return found == object.end() ? Json() : *found;
  };
  const Json group = config.group.empty() ? Json() : group_in(whole.at(config.group));
  return group.is_object() ? group : group_in(whole);
}

}  // namespace

void read_storage_file(const std::filesystem::path& folder, const SourceTensors& source,
                       IdentifiedModel& model) {
  constexpr std::string_view kNumbers = ".qweight";
  const auto quantised =
      std::ranges::find_if(source, [&](const auto& tensor) { return tensor.first.ends_with(kNumbers); });
  if (quantised == source.end()) return;
  FamilyConfig& read = model.read;
  for (const std::string_view name : kFiles) {
    const std::filesystem::path file = folder / name;
    if (!is_there(file)) continue;
    const std::string where = path_text(file);
    const std::string text = read_text_file(file, kModelConfigBytes);
    Json json = parsed(text, where);
    if (!read.storage) {
      // Neither AutoAWQ's files nor GPTQ's older ones have the method; AutoAWQ's names tell its files.
      if (!json.contains("quant_method"))
        json["quant_method"] = json.contains("w_bit") || json.contains("zero_point") ? "awq" : "gptq";
      read.storage = read_storage_group(ConfigReader(std::move(json), where, make_error<ConfigError>));
      return;
    }
    for (const std::string& other : contradictions(json, group_of(model.config))) {
      read.notes.push_back(
          fmt::format("[{}] says {}: {} holds, as in transformers", where, other, read.storage->where));
    }
  }
  if (read.storage) return;
  throw CheckpointError(quantised->second.where,
                        fmt::format("tensor '{}' is quantised as GPTQ's or AWQ's are, and nothing says how; "
                                    "expected {} in config.json, or {} or {} next to it",
                                    quantised->first, kQuantisationKey, kFiles[0], kFiles[1]));
}

}  // namespace hooked
