#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/normalized_string.h"

namespace hooked {

/// The four normalization forms of Unicode (Standard Annex 15).
enum class NormalizationForm : std::uint8_t { nfc, nfd, nfkc, nfkd };

/// `text`, valid UTF-8, in a normalization form, as changes of it.
std::vector<Change> normalized(std::string_view text, NormalizationForm form);

/// The lower case of a character: one or two characters.
std::vector<char32_t> lower_case(char32_t code_point);

}  // namespace hooked
