#pragma once

#include <ATen/core/Tensor.h>

namespace hooked {

/// Eigenvalues of matrices [.., n, n], complex [.., n] in float64 or float32; NaN for those that are
/// without_numbers. They are always computed on the CPU, and the result is there: on a GPU LibTorch has no
/// such decomposition unless it was built with a library that does half of it on the host, too, and the
/// matrices are small.
at::Tensor eigenvalues_of(const at::Tensor& matrices);

/// Bool [..]: which of matrices [.., m, n] hold NaN, as those of layers without heads do.
at::Tensor without_numbers(const at::Tensor& matrices);

/// Singular values of a matrix [d, n], descending, and the vectors on the side of d.
struct LeftSingular {
  at::Tensor values;   ///< [k], k the smaller of d and n
  at::Tensor vectors;  ///< [d, k], as columns
};

/// For any n: a wide matrix is first reduced to its triangular factor, so that nothing larger than d x d is
/// decomposed. Computes in float64 or float32.
LeftSingular left_singular(const at::Tensor& matrix);

}  // namespace hooked
