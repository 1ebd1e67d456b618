#pragma once

#include <string_view>

#include "core/json.h"

namespace hooked {

/// Reads the part of YAML that configs of transcoder sets are written in: a mapping of one level, `key:
/// value`, whose values are plain or quoted scalars or lists of them, as `- item` lines or in brackets;
/// comments; a `---` before it. Everything else of YAML (deeper mappings, anchors, tags, block texts) is
/// refused. Throws std::invalid_argument that names the line.
Json parse_flat_yaml(std::string_view text);

}  // namespace hooked
