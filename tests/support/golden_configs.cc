#include "tests/support/golden_configs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/support/goldens.h"

namespace hooked {
namespace {

Json& group_of(Json& config, const JsonPath& path) {
  Json* group = &config;
  for (std::size_t i = 0; i + 1 < path.size(); ++i) group = &group->at(path[i]);
  return *group;
}

void add_paths(const Json& object, const JsonPath& above, std::vector<JsonPath>& paths) {
  for (const auto& [key, value] : object.items()) {
    JsonPath path = above;
    path.push_back(key);
    paths.push_back(path);
    if (value.is_object()) add_paths(value, path, paths);
  }
}

std::vector<GoldenConfig> read_configs() {
  std::vector<GoldenConfig> configs;
  for (const GoldenCase& golden : golden_cases()) {
    if (golden.native()) continue;
    const std::ifstream file(golden.folder() / "config.json", std::ios::binary);
    if (!file) continue;  // a training script's file alone
    std::ostringstream text;
    text << file.rdbuf();
    Json json = parse_json(text.str(), {});
    if (json.contains("model_type")) configs.push_back({golden.name, json["model_type"], json});
  }
  std::ranges::sort(configs, {}, &GoldenConfig::name);
  return configs;
}

}  // namespace

const std::vector<GoldenConfig>& golden_configs() {
  static const std::vector<GoldenConfig> configs = read_configs();
  return configs;
}

FamilyConfig read_as(const GoldenConfig& golden, const Json& json) {
  Json named = json;
  named["model_type"] = golden.model_type;
  const RecognisedFamily found = named_family({named.dump(), "config.json"});
  return read_family_config(found.family, found.config);
}

std::vector<JsonPath> paths_of(const Json& object) {
  std::vector<JsonPath> paths;
  add_paths(object, {}, paths);
  return paths;
}

Json with_value(Json config, const JsonPath& path, const Json& value) {
  group_of(config, path)[path.back()] = value;
  return config;
}

Json without_key(Json config, const JsonPath& path) {
  group_of(config, path).erase(path.back());
  return config;
}

std::string dotted(const JsonPath& path) { return fmt::format("{}", fmt::join(path, ".")); }

JsonPath path_from(const std::string& text) {
  JsonPath path;
  std::istringstream stream(text);
  for (std::string key; std::getline(stream, key, '.');) path.push_back(key);
  return path;
}

}  // namespace hooked
