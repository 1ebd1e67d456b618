#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace hooked {

/// The classes of characters that pre-tokenizers know, after Unicode Technical Standard 18, annex C.
enum class CharClass : std::uint8_t {
  space,  ///< White_Space: what `\s` matches
  word,   ///< Alphabetic, Mark, Decimal_Number, Connector_Punctuation, Join_Control: what `\w` matches
  other,
};

/// One character and the bytes it takes.
struct DecodedChar {
  char32_t code_point;
  std::size_t bytes;
};

/// The character that `text`, not empty, begins with; nothing when it begins with no valid UTF-8.
std::optional<DecodedChar> first_char(std::string_view text) noexcept;

CharClass char_class(char32_t code_point) noexcept;

/// The offset of the first byte of `text` that is not part of valid UTF-8, or nothing.
std::optional<std::size_t> first_invalid_byte(std::string_view text) noexcept;

}  // namespace hooked
