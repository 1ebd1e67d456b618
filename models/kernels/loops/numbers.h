#pragma once

namespace hooked::kernels {
namespace {

/// Replaces functions of the standard library, which other sources share (Note [Kernel sets]).
[[gnu::always_inline]] constexpr std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
[[gnu::always_inline]] constexpr std::int64_t between(std::int64_t least, std::int64_t x, std::int64_t most) {
  return x < least ? least : smaller(x, most);
}
[[gnu::always_inline]] inline void fill(float* first, const float* end, float x) {
  while (first != end) *first++ = x;
}
[[gnu::always_inline]] inline void copy(float* __restrict to, const float* __restrict from,
                                        std::int64_t count) {
  __builtin_memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
}

/// Numbers of either kind to float32 and back; brain floats are given by their bits.
[[gnu::always_inline]] inline float widened(float x) { return x; }
[[gnu::always_inline]] inline float widened(std::uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}

[[gnu::always_inline]] inline void put(float* to, float x) { *to = x; }
[[gnu::always_inline]] inline void put(std::uint16_t* to, float x) {  // to the nearest, ties to even
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x40u;
  *to = static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}

}  // namespace
}  // namespace hooked::kernels
