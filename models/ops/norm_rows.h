#pragma once

#include <ATen/core/Tensor.h>

namespace hooked {

/// The outputs of norming the rows of a tensor (its last axis); undefined: not wanted.
struct NormedRows {
  at::Tensor weighted = {};    ///< like the input
  at::Tensor normalized = {};  ///< like the input, before weight and bias
  at::Tensor scale = {};       ///< [..., 1] float32: the divisor of the (centred) rows
};

/// How rows are normed. `weight` and `bias` are undefined or broadcast to the input.
struct RowNorm {
  bool centred;  ///< LayerNorm, else RMSNorm
  double eps;
  at::Tensor weight = {};
  at::Tensor bias = {};
  bool offset = false;  ///< a stored weight w means 1 + w
};

/// Whether our kernel supports these rows: float32 or bfloat16 on the CPU, each row without gaps.
bool can_norm_rows(const at::Tensor& x, const RowNorm& how);

/// Norms each row of `x` in one pass over it, in float32, into the tensors of `out`.
void norm_rows_into(const NormedRows& out, const at::Tensor& x, const RowNorm& how);

/// Backward: the gradient of `x` into `out`, given that of the weighted rows, all of one shape and dtype;
/// rows of `gradient` and `out` without gaps. The statistics are computed again.
void norm_rows_back_into(const at::Tensor& out, const at::Tensor& gradient, const at::Tensor& x,
                         const RowNorm& how);

}  // namespace hooked
