#pragma once

#include <ATen/core/Tensor.h>

namespace hooked {

/// x in at least float32: 16-bit numbers become float32, because LAPACK does not take them and sums lose
/// digits; others stay as they are.
inline at::Tensor float32_at_least(const at::Tensor& x) {
  const bool narrow = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
  return narrow ? x.to(at::kFloat) : x;
}

}  // namespace hooked
