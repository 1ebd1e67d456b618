#pragma once

#include <ATen/core/Tensor.h>

namespace hooked {

/// Singular values of a matrix [d, n], falling, and the vectors on the side of d.
struct LeftSingular {
  at::Tensor values;   ///< [k], k the smaller of d and n
  at::Tensor vectors;  ///< [d, k], as columns
};

/// Of any n: a wide matrix goes through its triangular factor, so that nothing larger than d x d is taken
/// apart. Computes in float64 or float32.
LeftSingular left_singular(const at::Tensor& matrix);

}  // namespace hooked
