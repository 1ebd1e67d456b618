#pragma once

#include <cstdint>

namespace hooked::kernels {

/// What a row of logits says of its likeliest token and of all probabilities.
struct RowPeak {
  float largest;       ///< NaN is passed over
  std::int64_t place;  ///< the first at which it stands
  double sum;          ///< of exp(number - largest) over the row; NaN where the row has one, or +infinity
};

/// Of a row of `count` numbers, at least one; read twice, the second time from the cache.
RowPeak row_peak(const float* row, std::int64_t count);

/// The first place up to which the sum of exp(number - largest) is more than `share` (0 to less than 1) of
/// the whole: drawing by the probabilities. `peak` is the row's, with a finite sum.
std::int64_t place_of_share(const float* row, std::int64_t count, const RowPeak& peak, double share);

}  // namespace hooked::kernels
