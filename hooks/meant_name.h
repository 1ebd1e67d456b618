#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hooked/hooks/point_index.h"
#include "hooked/hooks/site.h"

namespace hooked {

/// The site that a word of the field's shorthand means, with a layer or outside the blocks; null: none.
const SiteRow* site_of_shorthand(std::string_view name, bool in_block, std::string_view layer_type);

/// What somebody may have meant by a text that names no activation, as a part of an error's sentence that
/// begins with a semicolon; empty if it resembles no name. `layer`: given apart from the text.
std::string name_meant_by(std::string_view text, std::optional<std::int32_t> layer = std::nullopt);

/// The same among the names of one model, for a text that may be a glob.
std::string name_meant_by(std::string_view text, const PointIndex& points);

/// The end of an error's sentence: what was meant, if anything, and then what to do.
std::string with_advice(const std::string& meant, std::string_view advice);

/// Throws HookError if a text that is to name whole activations has indices.
void require_no_indices(std::string_view text);

}  // namespace hooked
