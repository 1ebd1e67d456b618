#pragma once

#include <ATen/core/Tensor.h>

#include "hooked/core/model_config.h"
#include "models/storage/workspace.h"

namespace hooked::ops {

/// The activation function, elementwise (SoLU: over the last axis). Throws std::logic_error for xIELU, which
/// has weights.
at::Tensor activate(Activation activation, const at::Tensor& x, Memory memory);

/// GELU by tanh, x / (1 + exp(-2 sqrt(2/pi) (x + 0.044715 x^3))), of x into `out` of the same shape
/// (Hendrycks and Gimpel 2016). For contiguous float32 and bfloat16 tensors on the CPU we have our own
/// kernel, which is 2e-7 |x| from exact before rounding and several times as fast as LibTorch's; LibTorch's
/// is used for all others.
void gelu_tanh_into(at::Tensor& out, const at::Tensor& x);

/// Backward: `gradient` times GELU's derivative at `x` into `out`, all of one shape. Our kernel is used for
/// float32 as in gelu_tanh_into, 1e-6 from exact.
void gelu_tanh_back_into(at::Tensor& out, const at::Tensor& gradient, const at::Tensor& x);

/// The numbers of an xIELU, each [1]: slopes for both signs, the slope they share, and the bound (a small
/// negative number) that keeps expm1 from losing its gradient at zero.
struct Xielu {
  at::Tensor alpha_p, alpha_n, beta, eps;
};

/// alpha_p x^2 + beta x above zero, (expm1(min(x, eps)) - x) alpha_n + beta x elsewhere (Huang and Schlag
/// 2024).
at::Tensor xielu(const at::Tensor& x, const Xielu& numbers);

}  // namespace hooked::ops
