#include "models/kernels/row_peak.h"

#include <algorithm>
#include <cstring>

#include "models/kernels/many_processors.h"
#include "models/kernels/softmax_parts.h"

namespace hooked::kernels {
namespace {

// Its exponentials lie in the first-level cache.
constexpr std::int64_t kStretch = 2048;

[[gnu::always_inline]] inline RowPeak peak(const float* row, std::int64_t count) {
  RowPeak peak{.largest = kForbidden, .place = 0, .sum = 0.0};
  for (std::int64_t first = 0; first < count; first += kStretch) {
    const float largest = largest_of(row + first, std::min(kStretch, count - first));
    if (!(largest > peak.largest)) continue;
    peak.largest = largest;
    peak.place = first;  // of the stretch
  }
  while (peak.place + 1 < count && row[peak.place] != peak.largest) ++peak.place;
  alignas(64) float powers[kStretch];
  for (std::int64_t first = 0; first < count; first += kStretch) {
    const std::int64_t numbers = std::min(kStretch, count - first);
    std::memcpy(powers, row + first, static_cast<std::size_t>(numbers) * sizeof(float));
    exponentiate(powers, numbers, peak.largest);
    peak.sum += static_cast<double>(sum_of(powers, numbers));
  }
  return peak;
}

}  // namespace

HOOKED_MANY_PROCESSORS
RowPeak row_peak(const float* row, std::int64_t count) { return peak(row, count); }

}  // namespace hooked::kernels
