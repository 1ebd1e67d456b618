// Prints docs/patching-functions.md from the presets and the index of the goldens of TransformerLens's
// functions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/analysis/patching_presets.h"
#include "hooked/core/axis.h"
#include "page.h"

namespace {

/// One thing that TransformerLens gets wrong, and where.
struct Fault {
  std::string text;                                    ///< reason and error
  double difference = 0;                               ///< 0: it crashes
  std::map<std::string, std::set<std::string>> files;  ///< by model
  std::vector<std::string> models;                     ///< in the order of the index
};

/// A function without the component of a direct path.
std::string function_of(const std::string& result) { return result.substr(0, result.find('.')); }

std::string component_of(const std::string& result) {
  const auto dot = result.find('.');
  return dot == std::string::npos ? "" : result.substr(dot + 1);
}

/// Faults by reason, and which of them each function has, for which components.
struct Faults {
  std::vector<Fault> all;
  std::map<std::string, std::map<std::size_t, std::set<std::string>>> of;

  explicit Faults(const nlohmann::json& index) {
    std::map<std::string, std::size_t> by_reason;
    for (const auto& row : index.at("exceptions")) {
      const std::string text = row.at("reason"), model = row.at("model");
      const auto [found, is_new] = by_reason.emplace(text.substr(0, text.find(" (")), all.size());
      if (is_new) all.push_back({.text = text, .files = {}, .models = {}});
      Fault& fault = all[found->second];
      fault.difference = std::max(fault.difference, row.value("difference", 0.0));
      if (std::ranges::find(fault.models, model) == fault.models.end()) fault.models.push_back(model);
      for (const std::string file : row.at("files")) fault.files[model].insert(file);
      for (const std::string result : row.at("functions"))
        of[function_of(result)][found->second].insert(component_of(result));
    }
  }
};

/// Where a fault is, by whether the model was processed and the batch was padded: `llama_like (raw)`.
std::string place_of(const std::string& model, const std::set<std::string>& files) {
  if (files.size() == 4) return fmt::format("`{}`", model);
  std::set<std::string> processed, inputs;
  for (const std::string& file : files) {
    const auto end = file.find('_');
    processed.insert(file.substr(0, end));
    inputs.insert(file.substr(end + 1) == "padded" ? "padded" : "one pair");
  }
  std::vector<std::string> words;
  if (processed.size() == 1) words.push_back(*processed.begin());
  if (inputs.size() == 1) words.push_back(*inputs.begin());
  return fmt::format("`{}` ({})", model, fmt::join(words, ", "));
}

std::string numbers_of(const Faults& faults, const std::string& function) {
  const auto found = faults.of.find(function);
  if (found == faults.of.end()) return "";
  std::vector<std::string> numbers;
  for (const auto& [number, components] : found->second) {
    const bool all = components.size() == 3 || components.contains("");
    numbers.push_back(all ? std::to_string(number + 1)
                          : fmt::format("{} ({})", number + 1, fmt::join(components, ", ")));
  }
  return fmt::format("{}", fmt::join(numbers, ", "));
}

std::string axes_of(const hooked::PatchingPreset& preset) {
  std::string text = preset.parts.size() > 1 ? "site" : "";
  for (const hooked::Axis axis : preset.over)
    text += (text.empty() ? "" : ", ") + std::string(hooked::axis_name(axis));
  return text;
}

std::string functions_of(const Faults& faults) {
  std::string text;
  constexpr std::string_view kRow = "| `{}` | {} | {} | {} | {} |\n";
  for (const hooked::PatchingPreset& preset : hooked::patching_presets()) {
    const std::string function = fmt::format("get_act_patch_{}", preset.name);
    text += fmt::format(kRow, function, fmt::format("preset `{}`", preset.name), axes_of(preset),
                        preset.patches, numbers_of(faults, function));
  }
  const std::string one = "get_act_patch_direct_path", all = one + "_all_sources";
  text +=
      fmt::format(kRow, one, "`direct_path` with `.source`", "layer, head",
                  "one head's output as another's queries, keys or values see it", numbers_of(faults, one));
  return text + fmt::format(kRow, all, "`direct_path`", "source_layer, source_head, layer, head",
                            "the same from every head", numbers_of(faults, all));
}

}  // namespace

int main(int, char** argv) {
  const auto index = nlohmann::json::parse(
      std::ifstream(std::filesystem::path(argv[1]) / "tests/golden/patching/index.json"));
  const Faults faults(index);
  constexpr std::size_t kFiles = 4, kDirectPaths = 2, kComponents = 3;
  const std::size_t functions = hooked::patching_presets().size() + kDirectPaths * kComponents;
  std::size_t absent = 0;
  for (const auto& row : index.at("exceptions"))
    absent += row.at("files").size() * row.at("functions").size();
  std::string rows;
  for (std::size_t i = 0; i < faults.all.size(); ++i) {
    const Fault& fault = faults.all[i];
    std::vector<std::string> places;
    for (const std::string& model : fault.models) places.push_back(place_of(model, fault.files.at(model)));
    rows += fmt::format("| {} | {} | {} | {} |\n", i + 1, fault.text,
                        fault.difference == 0 ? "crash" : fmt::format("{:.2g}", fault.difference),
                        fmt::join(places, ", "));
  }
  const std::size_t models = index.at("models").size();
  hooked::print_page(argv[1], "patching_functions",
                     {{"oracle", index.at("oracle").get<std::string>()},
                      {"models", std::to_string(models)},
                      {"recorded", std::to_string(models * kFiles * functions - absent)},
                      {"absent", std::to_string(absent)},
                      {"functions", functions_of(faults)},
                      {"faults", rows}});
}
