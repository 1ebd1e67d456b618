#include "io/files/number_codes.h"

#include <cmath>
#include <limits>

namespace hooked {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

float e4m3_number(int byte) {
  const int exponent = (byte >> 3) & 15, mantissa = byte & 7;
  if (exponent == 15 && mantissa == 7) return kNaN;
  // Subnormal numbers do not have the implicit leading one.
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                   : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return byte >= 128 ? -size : size;
}

float e8m0_number(int byte) { return byte == 255 ? kNaN : std::ldexp(1.0F, byte - 127); }

ByteNumbers table_of(float (*number)(int byte)) {
  ByteNumbers table{};
  for (int byte = 0; byte < 256; ++byte) table[static_cast<std::size_t>(byte)] = number(byte);
  return table;
}

}  // namespace

const ByteNumbers& e4m3_numbers() {
  static const ByteNumbers table = table_of(e4m3_number);
  return table;
}

const ByteNumbers& e8m0_numbers() {
  static const ByteNumbers table = table_of(e8m0_number);
  return table;
}

}  // namespace hooked
