#pragma once

#include <ATen/core/Tensor.h>

namespace hooked {

/// x in float32 at least: 16 bit numbers, which LAPACK has not and of which sums lose digits, become float32;
/// others stay as they are.
at::Tensor float32_at_least(const at::Tensor& x);

}  // namespace hooked
