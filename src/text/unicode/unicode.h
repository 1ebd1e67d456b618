#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hooked::text {

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

/// The first character of `text`, not empty; nothing if its first bytes are not valid UTF-8.
std::optional<DecodedChar> first_char(std::string_view text) noexcept;

CharClass char_class(char32_t code_point) noexcept;

bool is_space(char32_t code_point) noexcept;              ///< White_Space
bool is_number(char32_t code_point) noexcept;             ///< categories Nd, Nl, No
bool is_punctuation(char32_t code_point) noexcept;        ///< ASCII punctuation and symbols, or category P
bool is_mark(char32_t code_point) noexcept;               ///< category M
bool is_nonspacing_mark(char32_t code_point) noexcept;    ///< category Mn
bool is_control_or_format(char32_t code_point) noexcept;  ///< categories Cc, Cf, Co

/// Whether a byte of UTF-8 is not the first one of its character.
constexpr bool continues_character(char byte) noexcept {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// The byte at which the last character of `text`, not empty, begins.
std::size_t last_character(std::string_view text) noexcept;

/// The number of characters of valid UTF-8 `text`.
std::size_t count_characters(std::string_view text) noexcept;

/// `bytes` with U+FFFD for each longest run that begins a character but does not finish it, and for each byte
/// that cannot begin one (the Unicode standard's "maximal subparts", section 3.9).
std::string with_replacement_characters(std::string_view bytes);

/// The number of bytes at the end of `bytes` that begin a character but do not finish it, 0 to 3.
std::size_t unfinished_bytes(std::string_view bytes);

/// Calls `visit(character, bytes)` for each character of valid UTF-8 `text`.
template <class Visit>
void for_each_character(std::string_view text, Visit&& visit) {
  for (std::size_t at = 0; at < text.size();) {
    const auto decoded = first_char(text.substr(at));
    const auto bytes = decoded ? decoded->bytes : 1;
    visit(decoded ? decoded->code_point : U'\uFFFD', text.substr(at, bytes));
    at += bytes;
  }
}

/// One character of a changed text, and what it replaces in the text before the change: 0 replaces the next
/// character, -n replaces that one and the n characters after it, 1 is new and belongs to the character
/// before it.
struct Change {
  char32_t character;
  std::int32_t change;
};

/// The four normalization forms of Unicode (Standard Annex 15).
enum class NormalizationForm : std::uint8_t { nfc, nfd, nfkc, nfkd };

/// `text`, valid UTF-8, in a normalization form, as changes to it.
std::vector<Change> normalized(std::string_view text, NormalizationForm form);

/// The lower case of a character: one or two characters.
std::vector<char32_t> lower_case(char32_t code_point);

/// Valid UTF-8 `text` cut into extended grapheme clusters (Unicode Standard Annex 29): what a reader sees as
/// one character.
std::vector<std::string_view> graphemes(std::string_view text);

}  // namespace hooked::text
