#pragma once

#include <ATen/core/Tensor.h>

namespace hooked {

/// x in at least float32: 16-bit numbers become float32, because LAPACK does not take them and sums lose
/// digits; others stay as they are.
at::Tensor float32_at_least(const at::Tensor& x);

}  // namespace hooked
