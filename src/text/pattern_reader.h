#pragma once

#include "text/json_node.h"
#include "text/pattern.h"

namespace hooked {

/// Reads a pattern, `{"String": …}` or `{"Regex": …}`. Throws TokenizerError, with Oniguruma's reason for an
/// expression that cannot be compiled.
Pattern read_pattern(const JsonNode& node);

}  // namespace hooked
