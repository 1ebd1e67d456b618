#pragma once

#include <cstdint>

namespace hooked {

/// Adds `count` rows, each times its weight, to `sums`. Neighbouring rows are `stride` numbers apart; rows
/// and sums have `width` numbers. The order of each sum does not depend on the width.
void add_product_row(const double* rows, std::int64_t stride, const double* weights, std::int64_t count,
                     double* sums, std::int64_t width);

}  // namespace hooked
