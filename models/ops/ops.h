#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "models/storage/matrix.h"
#include "models/storage/workspace.h"

/// The arithmetic of the graph. Results are written into the workspace. Gradients of products, sums and
/// activations are computed by our own backward functions (Note [Recorded operations]), all others by
/// LibTorch's differentiable operators. In runs without a workspace LibTorch computes them all.
namespace hooked::ops {

/// x [..., in] times weight [out, in] transposed, plus bias [out] if defined: [..., out], contiguous.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, Memory memory);

/// The same in float32, or float64 if x is: sums of products of half precision are not rounded.
at::Tensor unrounded_linear(const at::Tensor& x, const Matrix& matrix, const at::Tensor& bias, Memory memory);

/// x [..., in] times matrix [out, in] transposed, plus bias [out] if defined: [..., out], contiguous.
at::Tensor linear(const at::Tensor& x, const Matrix& matrix, const at::Tensor& bias, Memory memory);

/// Each head's rows times that head's matrix: x [batch, pos, head, in] times weight [head, in, out]:
/// [batch, pos, head, out].
at::Tensor by_head_product(const at::Tensor& x, const at::Tensor& weight, Memory memory);

/// Each head's rows times that head's part of a matrix's outputs: x [batch, pos, head, in] times matrix [head
/// * out, in]: [batch, pos, head, out].
at::Tensor by_head_product(const at::Tensor& x, const Matrix& matrix, Memory memory);

/// The reverse: x [batch, pos, head, out] to [batch, pos, head, in].
at::Tensor by_head_product_back(const at::Tensor& x, const Matrix& matrix, Memory memory);

/// Consecutive stretches of `sizes` along a dimension of x, which they fill: views.
std::vector<at::Tensor> split(const at::Tensor& x, at::IntArrayRef sizes, std::int64_t dim, Memory memory);

/// The rows of x [row, size] with these indices [n] int64: [n, size].
at::Tensor rows_at(const at::Tensor& x, const at::Tensor& numbers, Memory memory);

/// a + b, same shapes.
at::Tensor add(const at::Tensor& a, const at::Tensor& b, Memory memory);

/// a * b, same shapes.
at::Tensor multiply(const at::Tensor& a, const at::Tensor& b, Memory memory);

/// q [batch, head, query, d_head] times k [batch, kv_head, key, d_head] transposed, times `scale`:
/// [batch, head, query, key]. Consecutive heads share a key/value head; keys of batch 1 serve every row.
at::Tensor scores(const at::Tensor& q, const at::Tensor& k, double scale, Memory memory);

/// The same written into `out`, which may be a stretch of the keys of a larger tensor. Not while gradients
/// are recorded. `q` may have any strides, and `k` is read in place.
void scores_into(const at::Tensor& out, const at::Tensor& q, const at::Tensor& k, double scale);

/// Softmax over the last axis, accumulated in float32 or better.
at::Tensor softmax(const at::Tensor& x, Memory memory);

/// pattern [batch, head, query, key] times v [batch, kv_head, key, d_head]: [batch, query, head, d_head],
/// contiguous. Values of batch 1 serve every row.
at::Tensor mix(const at::Tensor& pattern, const at::Tensor& v, Memory memory);

/// The same written into `out` [batch, query, head, d_head] of any strides, or added to it with `add`.
void mix_into(const at::Tensor& out, const at::Tensor& pattern, const at::Tensor& v, bool add);

/// cap * tanh(x / cap).
at::Tensor soft_cap(const at::Tensor& x, double cap);

}  // namespace hooked::ops
