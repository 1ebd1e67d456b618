#pragma once

#include "models/kernels/loops/exp2.h"

/// The building blocks of a row's softmax, for kernels that are compiled for several processors.
namespace hooked::kernels {
namespace {

constexpr float kForbidden = -__builtin_inff();
constexpr float kLog2E = 1.4426950408889634f;
constexpr std::int64_t kRowLanes = 16;
// Explicit lanes: GCC keeps the order of additions, and so takes one number at a time.
using RowLanes = float __attribute__((vector_size(kRowLanes * sizeof(float))));

/// The largest number of a row, -inf for an empty one. NaN is skipped.
[[gnu::always_inline]] inline float largest_of(const float* __restrict x, std::int64_t count) {
  float largest = kForbidden;
  std::int64_t k = 0;
  if (count >= kRowLanes) {
    RowLanes most, next;
    __builtin_memcpy(&most, x, sizeof most);
    for (k = kRowLanes; k + kRowLanes <= count; k += kRowLanes) {
      __builtin_memcpy(&next, x + k, sizeof next);
      most = next > most ? next : most;
    }
    for (std::int64_t lane = 0; lane < kRowLanes; ++lane)
      largest = most[lane] > largest ? most[lane] : largest;
  }
  for (; k < count; ++k) largest = x[k] > largest ? x[k] : largest;
  return largest;
}

/// The sum of a row.
[[gnu::always_inline]] inline float sum_of(const float* __restrict x, std::int64_t count) {
  float sum = 0.0f;
  std::int64_t k = 0;
  if (count >= kRowLanes) {
    RowLanes sums, next;
    __builtin_memcpy(&sums, x, sizeof sums);
    for (k = kRowLanes; k + kRowLanes <= count; k += kRowLanes) {
      __builtin_memcpy(&next, x + k, sizeof next);
      sums += next;
    }
    for (std::int64_t lane = 0; lane < kRowLanes; ++lane) sum += sums[lane];
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

}  // namespace
}  // namespace hooked::kernels
