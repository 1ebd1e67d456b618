#pragma once

#include <cstdint>
#include <limits>

#include "models/kernels/exp2.h"

/// What the softmax of a row is made of, for kernels that are compiled for several processors.
namespace hooked::kernels {

inline constexpr float kForbidden = -std::numeric_limits<float>::infinity();
inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr std::int64_t kLanes = 16;
// Lanes by hand: GCC keeps the order of additions, and so takes one number at a time.
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

/// The largest number of a row, -inf of none. NaN is passed over.
[[gnu::always_inline]] inline float largest_of(const float* __restrict x, std::int64_t count) {
  float largest = kForbidden;
  std::int64_t k = 0;
  if (count >= kLanes) {
    Lanes most, next;
    __builtin_memcpy(&most, x, sizeof most);
    for (k = kLanes; k + kLanes <= count; k += kLanes) {
      __builtin_memcpy(&next, x + k, sizeof next);
      most = next > most ? next : most;
    }
    for (std::int64_t lane = 0; lane < kLanes; ++lane) largest = most[lane] > largest ? most[lane] : largest;
  }
  for (; k < count; ++k) largest = x[k] > largest ? x[k] : largest;
  return largest;
}

/// The sum of a row.
[[gnu::always_inline]] inline float sum_of(const float* __restrict x, std::int64_t count) {
  float sum = 0.0f;
  std::int64_t k = 0;
  if (count >= kLanes) {
    Lanes sums, next;
    __builtin_memcpy(&sums, x, sizeof sums);
    for (k = kLanes; k + kLanes <= count; k += kLanes) {
      __builtin_memcpy(&next, x + k, sizeof next);
      sums += next;
    }
    for (std::int64_t lane = 0; lane < kLanes; ++lane) sum += sums[lane];
  }
  for (; k < count; ++k) sum += x[k];
  return sum;
}

/// exp(number - largest) in place; NaN stays NaN.
[[gnu::always_inline]] inline void exponentiate(float* __restrict x, std::int64_t count, float largest) {
  for (std::int64_t k = 0; k < count; ++k) {
    const float t = (x[k] - largest) * kLog2E;
    const float power = exp2_of(t);
    x[k] = t < -126.0f ? 0.0f : power;
  }
}

}  // namespace hooked::kernels
