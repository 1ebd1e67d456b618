#pragma once

#include <string>
#include <vector>

#include "core/json.h"
#include "families/family.h"

namespace hooked {

/// The config.json of a golden checkpoint that names its family.
struct GoldenConfig {
  std::string name;  ///< of the checkpoint
  std::string model_type;
  Json json;
};

/// Those of every golden case of a family, native ones left out, by name.
const std::vector<GoldenConfig>& golden_configs();

/// How the family of `golden` reads `json`, a config of it that may have been changed. Throws
/// ConfigError.
FamilyConfig read_as(const GoldenConfig& golden, const Json& json);

/// Where a value is in a config: keys and places in lists, the outermost first.
using JsonPath = std::vector<std::string>;

/// The paths of all keys of `object`, including those of its groups.
std::vector<JsonPath> paths_of(const Json& object);

/// `config` with the value at `path` replaced.
Json with_value(Json config, const JsonPath& path, const Json& value);
/// `config` without the key at `path`.
Json without_key(Json config, const JsonPath& path);

/// `rope_parameters.rope_theta`
std::string dotted(const JsonPath& path);
/// The path that `text` spells.
JsonPath path_from(const std::string& text);

}  // namespace hooked
