#pragma once

#include "models/kernels/loops/numbers.h"
#include "models/kernels/loops/softmax_parts.h"

namespace hooked::kernels {
namespace {

// A rational function of x, off by at most 4e-7, as precise as LibTorch's vectors.
[[gnu::always_inline]] inline float tanh_of(float x) {
  x = x > 7.9053111f ? 7.9053111f : x;
  x = x < -7.9053111f ? -7.9053111f : x;
  const float s = x * x;
  float p = -2.76076847742355e-16f;
  p = p * s + 2.00018790482477e-13f;
  p = p * s + -8.60467152213735e-11f;
  p = p * s + 5.12229709037114e-08f;
  p = p * s + 1.48572235717979e-05f;
  p = p * s + 6.37261928875436e-04f;
  p = p * s + 4.89352455891786e-03f;
  float q = 1.19825839466702e-06f;
  q = q * s + 1.18534705686654e-04f;
  q = q * s + 2.26843463243900e-03f;
  q = q * s + 4.89352518554385e-03f;
  return x * p / q;
}

[[gnu::always_inline]] inline void cap(float* __restrict x, std::int64_t count, float size) {
  const float inverse = 1.0f / size;
  for (std::int64_t k = 0; k < count; ++k) x[k] = size * tanh_of(x[k] * inverse);
}

[[gnu::always_inline]] inline void add(float* __restrict x, const float* __restrict bias,
                                       std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) x[k] += bias[k];
}

[[gnu::always_inline]] inline void forbid_padding(float* __restrict x, const bool* __restrict real,
                                                  std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) x[k] = real[k] ? x[k] : kForbidden;
}

[[gnu::always_inline]] inline void multiply(float* __restrict x, std::int64_t count, float factor) {
  for (std::int64_t k = 0; k < count; ++k) x[k] *= factor;
}

/// The numbers of the columns that are here, and `elsewhere` for the others.
[[gnu::always_inline]] inline void keep(float* __restrict kept, const float* __restrict x,
                                        const AttentionRows& r, float elsewhere) {
  fill(kept, kept + r.first_key, elsewhere);
  copy(kept + r.first_key, x, r.end_key - r.first_key);
  fill(kept + r.end_key, kept + r.columns, elsewhere);
}

void attend_rows(const AttentionRows& r) {
  const std::int64_t keys = r.end_key - r.first_key;
  for (std::int64_t row = 0; row < r.rows; ++row) {
    float* const x = r.scores + row * r.stride;
    std::int64_t from = 0, to = keys;
    if (r.first != nullptr) {
      from = between(0, r.first[row] - r.first_key, keys);
      to = between(from, r.end[row] - r.first_key, keys);
    }
    float* const seen = x + from;
    const std::int64_t count = to - from;
    if (r.soft_cap > 0.0f) cap(seen, count, r.soft_cap);
    if (r.bias != nullptr) add(seen, r.bias + r.bias_starts[row] + r.first_key + from, count);
    if (r.real != nullptr) forbid_padding(seen, r.real + r.first_key + from, count);
    if (r.kept_scores != nullptr) {
      fill(x, seen, kForbidden);
      fill(seen + count, x + keys, kForbidden);
      keep(r.kept_scores + row * r.columns, x, r, kForbidden);
    }
    float largest = largest_of(seen, count);
    if (r.sink != nullptr) largest = *r.sink > largest ? *r.sink : largest;
    const bool sees_nothing = largest == kForbidden && (r.real != nullptr || count == 0);
    if (sees_nothing && !(sum_of(seen, count) != sum_of(seen, count))) {
      fill(x, x + keys, 0.0f);
    } else {
      exponentiate(seen, count, largest);
      const float sum =
          sum_of(seen, count) + (r.sink != nullptr ? exp2_of((*r.sink - largest) * kLog2E) : 0.0f);
      multiply(seen, count, 1.0f / sum);
      fill(x, seen, 0.0f);
      fill(seen + count, x + keys, 0.0f);
    }
    if (r.kept_pattern != nullptr) keep(r.kept_pattern + row * r.columns, x, r, 0.0f);
  }
}

}  // namespace
}  // namespace hooked::kernels
