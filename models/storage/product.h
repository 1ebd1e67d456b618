#pragma once

#include <ATen/core/Tensor.h>

namespace hooked {

/// out := rows weight^T (+ bias), for contiguous rows [row, in], weight [out, in] stored either way, bias
/// [out] or undefined, and out [row, out]. No gradients.
void linear_into(at::Tensor& out, const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias);

/// The dtype in which sums of products of this dtype are accumulated: float64 for float64, else float32.
at::ScalarType sum_dtype(at::ScalarType dtype);

/// linear_into for an `out` of the sums' dtype, which are not rounded.
void sums_into(at::Tensor& out, const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace hooked
