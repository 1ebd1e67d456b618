#include "core/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace hooked {

std::size_t utf8_length(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  // The second byte's range excludes overlong forms (E0, F0), surrogates (ED) and points above 10FFFF (F4).
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

std::optional<std::size_t> first_invalid_byte(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    std::uint64_t eight = 0;
    if (text.size() - at >= 8) {
      std::memcpy(&eight, text.data() + at, 8);
      if ((eight & 0x8080808080808080U) == 0) {  // eight ASCII bytes at once: most of most texts
        at += 8;
        continue;
      }
    }
    const auto length = utf8_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

std::size_t append_shown(std::string& line, std::string_view text) {
  const std::size_t length = utf8_length(text);
  const auto byte = static_cast<unsigned char>(text.front());
  const bool c1_control = length == 2 && byte == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
  const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
  if (length == 0 || byte < 0x20 || byte == 0x7F || c1_control) {
    for (const char each : character) line += fmt::format("\\x{:02x}", static_cast<unsigned char>(each));
  } else {
    line += character;
  }
  return character.size();
}

void append_utf8(std::string& text, char32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xC0 | (c >> 6));
    text += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    text += static_cast<char>(0xE0 | (c >> 12));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    text += static_cast<char>(0xF0 | (c >> 18));
    text += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  }
}

}  // namespace hooked
