#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hooked::text {

/// GPT-2's spelling of bytes: each byte is one printable character. If the byte is printable in Latin-1, that
/// is the byte itself, else a character from U+0100 on, in order. A blank is `Ġ`, a newline `Ċ`.
char32_t byte_character(std::uint8_t byte) noexcept;

/// The byte that a character spells, or nothing.
std::optional<std::uint8_t> character_byte(char32_t character) noexcept;

/// The bytes that `piece` spells, or nothing if one of its characters does not spell a byte.
std::optional<std::string> spelled_bytes(std::string_view piece);

}  // namespace hooked::text
