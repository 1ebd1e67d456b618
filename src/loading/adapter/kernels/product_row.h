#pragma once

#include <cstdint>

namespace hooked {

/// Adds `count` rows, of which neighbours lie `stride` numbers apart, each times its weight, to `sums`; rows
/// and sums have `width` numbers. A sum is made in the same order whatever the width is.
void add_product_row(const double* rows, std::int64_t stride, const double* weights, std::int64_t count,
                     double* sums, std::int64_t width);

}  // namespace hooked
