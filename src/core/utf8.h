#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace hooked {

/// The number of bytes of the first character of `text`, which is not empty; 0 if it does not begin with one
/// (RFC 3629: no overlong forms, no surrogates).
std::size_t utf8_length(std::string_view text) noexcept;

/// The offset of the first byte of `text` that is not part of valid UTF-8, or nothing.
std::optional<std::size_t> first_invalid_byte(std::string_view text) noexcept;

/// Appends the first character of `text`, which is not empty, as a line can show it: `\x0a` for each byte of
/// a control character, and for a byte that is not UTF-8. Returns how many bytes that is of.
std::size_t append_shown(std::string& line, std::string_view text);

/// Appends a character, encoded as UTF-8.
void append_utf8(std::string& text, char32_t character);

}  // namespace hooked
