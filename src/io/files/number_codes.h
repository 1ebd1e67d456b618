#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hooked {

/// The unsigned number in the `width` (at most 8) bytes of `bytes` from `at` on, the lowest byte first.
inline std::uint64_t little_endian(std::string_view bytes, std::size_t at, std::size_t width) {
  assert(width <= 8 && at + width <= bytes.size());
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}

/// The value of each byte in the formats of the Open Compute Project (OCP Microscaling Formats 1.0, OFP8
/// 1.0).
using ByteNumbers = std::array<float, 256>;

/// e4m3: sign, 4 bits of exponent, 3 of mantissa; no infinities; 0x7f and 0xff are NaN.
const ByteNumbers& e4m3_numbers();

/// e8m0: 2^(byte - 127); 0xff is NaN.
const ByteNumbers& e8m0_numbers();

/// e2m1: the 16 numbers of four bits, sign, 2 bits of exponent, 1 of mantissa.
inline constexpr std::array<float, 16> kE2m1Numbers = {
    0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F, -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

}  // namespace hooked
