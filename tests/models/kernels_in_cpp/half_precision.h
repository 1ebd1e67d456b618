#pragma once

#include "models/kernels/loops/vectors.h"

namespace hooked::kernels {
namespace {

// IEEE half-precision numbers as float32.
inline Floats floats_of(Halves ieee) {
  Floats floats{};
  for (int lane = 0; lane < kLanes; ++lane) {
    const std::uint32_t bits = ieee[lane], sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    const float subnormal = static_cast<float>(rest) * 0x1.0p-24f;
    const std::uint32_t exponent_bias =
        rest >= 0x7c00u ? 0x70000000u : 0x38000000u;  // of inf and NaN: all ones
    const std::uint32_t magnitude =
        rest < 0x400u ? __builtin_bit_cast(std::uint32_t, subnormal) : (rest << 13) + exponent_bias;
    floats[lane] = __builtin_bit_cast(float, sign | magnitude);
  }
  return floats;
}

inline Integers integers_of(Bytes bytes) { return __builtin_convertvector(bytes, Integers); }

}  // namespace
}  // namespace hooked::kernels
