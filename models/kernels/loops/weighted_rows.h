#pragma once

#include "models/kernels/loops/numbers.h"

namespace hooked::kernels {
namespace {

constexpr std::int64_t kAtOnce = 128;  // sums that stay in registers or the nearest cache

template <class Number>
void weighted_rows(Number* __restrict out, const Number* const* rows, const Number* weights,
                   std::int64_t count, std::int64_t size) {
  for (std::int64_t first = 0; first < size; first += kAtOnce) {
    const std::int64_t numbers = smaller(kAtOnce, size - first);
    float sums[kAtOnce] = {};
    for (std::int64_t r = 0; r < count; ++r) {
      if (rows[r] == nullptr) continue;
      const Number* __restrict row = rows[r] + first;
      const float weight = widened(weights[r]);
      for (std::int64_t i = 0; i < numbers; ++i) sums[i] += weight * widened(row[i]);
    }
    for (std::int64_t i = 0; i < numbers; ++i) put(out + first + i, sums[i]);
  }
}

}  // namespace
}  // namespace hooked::kernels
