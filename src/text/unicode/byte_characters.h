#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hooked::text {

/// GPT-2's spelling of bytes: each byte is one printable character, itself where it is one in Latin-1, and
/// else one from U+0100 on, in order. A blank is `Ġ`, a newline `Ċ`.
char32_t byte_character(std::uint8_t byte) noexcept;

/// The byte that a character spells, or nothing.
std::optional<std::uint8_t> character_byte(char32_t character) noexcept;

/// The bytes that `piece` spells, or nothing when one of its characters spells none.
std::optional<std::string> spelled_bytes(std::string_view piece);

}  // namespace hooked::text
