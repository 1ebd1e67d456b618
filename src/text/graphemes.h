#pragma once

#include <string_view>
#include <vector>

namespace hooked {

/// Valid UTF-8 `text` cut into extended grapheme clusters (Unicode Standard Annex 29): what a reader sees as
/// one character.
std::vector<std::string_view> graphemes(std::string_view text);

}  // namespace hooked
