#pragma once

#include <ATen/core/Tensor.h>

namespace hooked {

/// Eigenvalues of matrices [.., n, n], complex [.., n] on the CPU, in float64 or float32; NaN of those that
/// are without_numbers. They are computed
/// there wherever the matrices lie: LibTorch has no such decomposition on a GPU unless it was built with one
/// of the libraries that do it half on the host, too, and the matrices are small.
at::Tensor eigenvalues_of(const at::Tensor& matrices);

/// Bool [..]: which of matrices [.., m, n] hold NaN, as those of layers without heads do.
at::Tensor without_numbers(const at::Tensor& matrices);

}  // namespace hooked
