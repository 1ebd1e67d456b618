#include "core/base64.h"

#include <cstdint>

namespace hooked {

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const auto value = [](char c) -> int {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t at = 0; at < text.size(); at += 4) {
    const auto group = text.substr(at, 4);
    std::size_t digits = 4;
    if (at + 4 == text.size()) {
      while (digits > 2 && group[digits - 1] == '=') --digits;
    }
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const int digit = i < digits ? value(group[i]) : 0;
      if (digit < 0) return std::nullopt;
      bits = bits << 6 | static_cast<std::uint32_t>(digit);
    }
    // Bits after the last byte must be zero, so that there is only one spelling.
    if ((bits & ((1U << (8 * (4 - digits))) - 1)) != 0) return std::nullopt;
    for (std::size_t i = 0; i + 1 < digits; ++i) bytes += static_cast<char>(bits >> (16 - 8 * i) & 0xFF);
  }
  return bytes;
}

std::string encode_base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const auto group = bytes.substr(at, 3);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < group.size() ? static_cast<unsigned char>(group[i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i) text += i <= group.size() ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

}  // namespace hooked
