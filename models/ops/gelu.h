#pragma once

#include <ATen/core/Tensor.h>

namespace hooked {

/// GELU by tanh, x / (1 + exp(-2 sqrt(2/pi) (x + 0.044715 x^3))), of x into `out` of the same shape
/// (Hendrycks and Gimpel 2016). Contiguous float32 and bfloat16 tensors on the CPU go through a kernel of our
/// own, 2e-7 |x| from exact before it is rounded and several times as fast as LibTorch's, which serves all
/// others.
void gelu_tanh_into(at::Tensor& out, const at::Tensor& x);

/// The way back: `gradient` times GELU's derivative at `x` into `out`, all of one shape. Our kernel serves
/// float32 as in gelu_tanh_into, 1e-6 from exact.
void gelu_tanh_back_into(at::Tensor& out, const at::Tensor& gradient, const at::Tensor& x);

}  // namespace hooked
