#pragma once

#include "models/kernels/loops/numbers.h"
#include "models/kernels/loops/softmax_parts.h"

namespace hooked::kernels {
namespace {

// Its exponentials fit into the first-level cache.
constexpr std::int64_t kStretch = 2048;

// The exponentials of some of the row's numbers, and their sum.
[[gnu::always_inline]] inline float powers_of(float* powers, const float* numbers, std::int64_t count,
                                              float largest) {
  copy(powers, numbers, count);
  exponentiate(powers, count, largest);
  return sum_of(powers, count);
}

RowPeak row_peak(const float* row, std::int64_t count) {
  RowPeak peak{.largest = kForbidden, .place = 0, .sum = 0.0};
  for (std::int64_t first = 0; first < count; first += kStretch) {
    const float largest = largest_of(row + first, smaller(kStretch, count - first));
    if (!(largest > peak.largest)) continue;
    peak.largest = largest;
    peak.place = first;  // of the stretch
  }
  while (peak.place + 1 < count && row[peak.place] != peak.largest) ++peak.place;
  alignas(64) float powers[kStretch];
  for (std::int64_t first = 0; first < count; first += kStretch) {
    peak.sum +=
        static_cast<double>(powers_of(powers, row + first, smaller(kStretch, count - first), peak.largest));
  }
  return peak;
}

std::int64_t place_of_share(const float* row, std::int64_t count, const RowPeak& peak, double share) {
  const double wanted = share * peak.sum;
  double before = 0.0;
  std::int64_t last = peak.place;  // the last that is not ruled out, if rounding keeps all sums below
  alignas(64) float powers[kStretch];
  for (std::int64_t first = 0; first < count; first += kStretch) {
    const std::int64_t numbers = smaller(kStretch, count - first);
    const auto sum = static_cast<double>(powers_of(powers, row + first, numbers, peak.largest));
    if (sum > 0.0 && before + sum >= wanted) {
      double up_to = before;
      for (std::int64_t k = 0; k < numbers; ++k) {
        if (powers[k] == 0.0f) continue;
        up_to += static_cast<double>(powers[k]);
        last = first + k;
        if (up_to > wanted) return last;
      }
    }
    before += sum;
  }
  return last;
}

}  // namespace
}  // namespace hooked::kernels
