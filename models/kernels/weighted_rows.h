#pragma once

#include <cstdint>

namespace hooked::kernels {

/// out[i] = the sum over r of weights[r] rows[r][i], for `count` rows of `size` numbers, added up in float32
/// in the order of the rows. A row that is null adds nothing. Brain floats are given by their bits.
void weighted_rows(float* out, const float* const* rows, const float* weights, std::int64_t count,
                   std::int64_t size);
void weighted_rows(std::uint16_t* out, const std::uint16_t* const* rows, const std::uint16_t* weights,
                   std::int64_t count, std::int64_t size);

}  // namespace hooked::kernels
