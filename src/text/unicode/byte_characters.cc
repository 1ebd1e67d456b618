#include "text/unicode/byte_characters.h"

#include <array>

#include "text/unicode/unicode.h"

namespace hooked::text {
namespace {

constexpr bool is_itself(unsigned byte) noexcept {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char16_t, 256> kCharacters = [] {
  std::array<char16_t, 256> characters{};
  char16_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    characters[byte] = is_itself(byte) ? static_cast<char16_t>(byte) : next++;
  }
  return characters;
}();

constexpr std::array<std::int16_t, 0x144> kBytes = [] {
  std::array<std::int16_t, 0x144> bytes{};
  bytes.fill(-1);
  for (unsigned byte = 0; byte < 256; ++byte) bytes[kCharacters[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}();

}  // namespace

char32_t byte_character(std::uint8_t byte) noexcept { return kCharacters[byte]; }

std::optional<std::uint8_t> character_byte(char32_t character) noexcept {
  if (character >= kBytes.size() || kBytes[character] < 0) return std::nullopt;
  return static_cast<std::uint8_t>(kBytes[character]);
}

std::optional<std::string> spelled_bytes(std::string_view piece) {
  std::string bytes;
  bool all = true;
  for_each_character(piece, [&](char32_t c, std::string_view) {
    const auto byte = character_byte(c);
    all = all && byte;
    if (byte) bytes += static_cast<char>(*byte);
  });
  if (!all) return std::nullopt;
  return bytes;
}

}  // namespace hooked::text
