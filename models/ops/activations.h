#pragma once

#include <ATen/core/Tensor.h>

#include "hooked/core/model_config.h"
#include "models/storage/workspace.h"

namespace hooked::ops {

/// The activation function, elementwise (SoLU: over the last axis). Throws std::logic_error for xIELU, which
/// has weights.
at::Tensor activate(Activation activation, const at::Tensor& x, Memory memory);

/// The numbers of an xIELU, each [1]: slopes for both signs, the slope they share, and the bound (a small
/// negative number) that keeps expm1 from losing its gradient at zero.
struct Xielu {
  at::Tensor alpha_p, alpha_n, beta, eps;
};

/// alpha_p x^2 + beta x above zero, (expm1(min(x, eps)) - x) alpha_n + beta x elsewhere (Huang and Schlag
/// 2024).
at::Tensor xielu(const at::Tensor& x, const Xielu& numbers);

}  // namespace hooked::ops
