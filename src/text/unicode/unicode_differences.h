#pragma once

#include <cstdint>
#include <optional>

namespace hooked::text {

/// The properties of characters on which the package `tokenizers` and utf8proc disagree: they use different
/// versions of Unicode, the package several at once (docs/unicode-differences.md).
enum class UnicodeProperty : std::uint8_t {
  number,
  punctuation,
  mark,
  nonspacing_mark,
  control_or_format,
  word,
  canonical_decomposition,
  compatible_decomposition,
  combining_class,  ///< other than 0
};

/// Whether a character has the property in the tokenizers package, if utf8proc disagrees.
std::optional<bool> differing(UnicodeProperty property, char32_t code_point) noexcept;

/// The lower case of a character that only the tokenizers package knows.
std::optional<char32_t> differing_lower_case(char32_t code_point) noexcept;

}  // namespace hooked::text
