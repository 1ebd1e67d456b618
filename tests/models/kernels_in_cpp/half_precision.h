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

// float32 numbers in IEEE half precision, to the nearest, ties to even. NaN stays NaN.
inline Halves halves_of(Floats floats) {
  Halves halves{};
  for (int lane = 0; lane < kLanes; ++lane) {
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, floats[lane]),
                        magnitude = bits & 0x7fffffffu;
    std::uint32_t half = 0x7c00u;  // what is too large is infinite
    if (magnitude > 0x7f800000u) {
      half = 0x7e00u;
    } else if (magnitude < 0x38800000u) {  // subnormal: the sum has the steps of half precision
      half = __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, magnitude) + 0.5f) - 0x3f000000u;
    } else if (magnitude < 0x477ff000u) {
      half = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    }
    halves[lane] = static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | half);
  }
  return halves;
}

inline Integers integers_of(Bytes bytes) { return __builtin_convertvector(bytes, Integers); }

}  // namespace
}  // namespace hooked::kernels
