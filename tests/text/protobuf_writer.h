#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace hooked::text {

/// A number as protobuf writes it.
inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

/// Fields of a message: a number, bytes (a text or a message inside), a float.
inline std::string number_field(unsigned number, std::uint64_t value) {
  return varint(number << 3) + varint(value);
}
inline std::string bytes_field(unsigned number, std::string_view bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}
inline std::string float_field(unsigned number, float value) {
  std::string bytes = varint(number << 3 | 5);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(bits >> shift);
  return bytes;
}

/// A piece of a SentencePiece model: its text, score and type.
inline std::string piece_field(std::string_view text, float score = 0, unsigned type = 1) {
  return bytes_field(1, bytes_field(1, text) + float_field(2, score) + number_field(3, type));
}

/// A small SentencePiece model of byte pairs: `<unk>`, `<s>`, `</s>`, a blank, a, b, ab, blank and ab.
inline std::string small_pieces() {
  return piece_field("<unk>", 0, 2) + piece_field("<s>", 0, 3) + piece_field("</s>", 0, 3) +
         piece_field("\u2581", -4) + piece_field("a", -5) + piece_field("b", -6) + piece_field("ab", -1) +
         piece_field("\u2581ab", -2);
}
inline std::string small_model() {
  return small_pieces() + bytes_field(2, number_field(3, 2)) + bytes_field(3, number_field(4, 0));
}

}  // namespace hooked::text
