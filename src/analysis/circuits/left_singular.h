#pragma once

#include <ATen/core/Tensor.h>

namespace hooked {

/// Singular values of a matrix [d, n], descending, and the vectors on the side of d.
struct LeftSingular {
  at::Tensor values;   ///< [k], k the smaller of d and n
  at::Tensor vectors;  ///< [d, k], as columns
};

/// For any n: a wide matrix is first reduced to its triangular factor, so that nothing larger than d x d is
/// decomposed. Computes in float64 or float32.
LeftSingular left_singular(const at::Tensor& matrix);

}  // namespace hooked
