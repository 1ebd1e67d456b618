#include "models/ops/activations.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/hardtanh.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/softplus_backward.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/threshold_backward.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cstdint>
#include <numbers>
#include <stdexcept>
#include <vector>

#include "models/kernels/kernels.h"
#include "models/ops/ops.h"
#include "models/ops/recorded.h"
#include "models/storage/each_row.h"
#include "models/storage/workspace.h"

namespace hooked::ops {
namespace {

// In float32 and narrower, a root given with eight digits is that of LibTorch's kernel, which is one launch
// instead of nine.
at::Tensor gelu_with_root(const at::Tensor& x, double root_of_two_over_pi) {
  if (!x.device().is_cpu() && x.scalar_type() != at::kDouble) return at::gelu(x, "tanh");
  return 0.5 * x * (1.0 + at::tanh(x * root_of_two_over_pi * (1.0 + 0.044715 * x * x)));
}

// x sigmoid(beta x). A softplus's backward multiplies its argument by that sigmoid, in one launch instead of
// three; above its threshold, where it multiplies by 1, the sigmoid is also 1 to the last bit.
at::Tensor swish(const at::Tensor& x, double beta, Memory memory) {
  constexpr double kRoundsToOne = 40.0;
  if (memory.workspace == nullptr || x.device().is_cpu() || records(x)) return x * at::sigmoid(beta * x);
  return at::softplus_backward(x, x, beta, kRoundsToOne);
}

bool ours(const at::Tensor& out, const at::Tensor& x) {
  return x.device().is_cpu() && x.dim() > 0 && x.is_contiguous() && out.is_contiguous() &&
         kernels::own_kernels() != nullptr;
}

template <class Number>
void gelu_of(at::Tensor& out, const at::Tensor& x) {
  each_row<2>(x, {&out, &x}, 1,
              [size = x.size(-1),
               gelu = kernels::own_kernels()->rows<Number>().gelu_tanh](const std::array<char*, 2>& rows) {
                gelu(reinterpret_cast<Number*>(rows[0]), reinterpret_cast<const Number*>(rows[1]), size);
              });
}

/// An elementwise activation function.
struct Elementwise {
  Activation::Kind kind;
  at::Tensor (*plain)(const at::Tensor& x);  ///< by LibTorch's differentiable operators
  /// The same into existing memory, and its gradient at `x`; null: LibTorch's operators are always used.
  void (*out)(at::Tensor& out, const at::Tensor& x) = nullptr;
  void (*back)(at::Tensor& out, const at::Tensor& gradient, const at::Tensor& x) = nullptr;
};

constexpr Elementwise kElementwise[] = {
    {Activation::relu, [](const at::Tensor& x) { return at::relu(x); },
     [](at::Tensor& out, const at::Tensor& x) { at::clamp_min_out(out, x, 0); },
     [](at::Tensor& out, const at::Tensor& gradient, const at::Tensor& x) {
       at::threshold_backward_out(out, gradient, x, 0);
     }},
    {Activation::gelu, [](const at::Tensor& x) { return at::gelu(x); },
     [](at::Tensor& out, const at::Tensor& x) { at::gelu_out(out, x, "none"); },
     [](at::Tensor& out, const at::Tensor& gradient, const at::Tensor& x) {
       at::gelu_backward_out(out, gradient, x, "none");
     }},
    {Activation::gelu_tanh, [](const at::Tensor& x) { return at::gelu(x, "tanh"); }, gelu_tanh_into,
     gelu_tanh_back_into},
    {Activation::silu, [](const at::Tensor& x) { return at::silu(x); },
     [](at::Tensor& out, const at::Tensor& x) { at::silu_out(out, x); },
     [](at::Tensor& out, const at::Tensor& gradient, const at::Tensor& x) {
       at::silu_backward_out(out, gradient, x);
     }},
    {Activation::gelu_fast, [](const at::Tensor& x) { return gelu_with_root(x, 0.7978845608); }},
    {Activation::gelu_bloom, [](const at::Tensor& x) { return gelu_with_root(x, 0.79788456); }},
    {Activation::gelu_clipped, [](const at::Tensor& x) { return at::clamp(at::gelu(x), -10.0, 10.0); }},
    {Activation::relu_squared, [](const at::Tensor& x) { return at::relu(x).square(); }},
    {Activation::relu6, [](const at::Tensor& x) { return at::hardtanh(x, 0.0, 6.0); }},
    {Activation::leaky_relu, [](const at::Tensor& x) { return at::leaky_relu(x, 0.01); }},
    {Activation::sigmoid, [](const at::Tensor& x) { return at::sigmoid(x); }},
    {Activation::hard_swish, [](const at::Tensor& x) { return at::hardswish(x); }},
    {Activation::mish, [](const at::Tensor& x) { return at::mish(x); }},
    {Activation::sqrt_softplus, [](const at::Tensor& x) { return at::softplus(x).sqrt(); }},
    {Activation::tanh, [](const at::Tensor& x) { return at::tanh(x); }},
    {Activation::laplace,
     [](const at::Tensor& x) {
       return 0.5 * (1.0 + at::erf((x - 0.707107) / (0.282095 * std::numbers::sqrt2)));
     }},
    {Activation::identity, [](const at::Tensor& x) { return x; }},
};

at::Tensor applied(const Elementwise& function, const at::Tensor& x, Memory memory) {
  if (memory.workspace == nullptr || function.out == nullptr) return function.plain(x);
  const at::Tensor input = without_history(x);
  at::Tensor result = memory.workspace->empty(x.sizes(), x.options());
  function.out(result, input);
  if (!records(x)) return result;
  return recorded(result, {x},
                  [memory = *memory.workspace, input, back = function.back](const at::Tensor& gradient) {
                    at::Tensor passed = memory.empty(input.sizes(), input.options());
                    back(passed, gradient, input);
                    return std::vector{passed};
                  });
}

}  // namespace

void gelu_tanh_into(at::Tensor& out, const at::Tensor& x) {
  if (ours(out, x) && x.scalar_type() == at::kFloat) return gelu_of<float>(out, x);
  if (ours(out, x) && x.scalar_type() == at::kBFloat16) return gelu_of<std::uint16_t>(out, x);
  at::gelu_out(out, x, "tanh");
}

void gelu_tanh_back_into(at::Tensor& out, const at::Tensor& gradient, const at::Tensor& x) {
  if (!ours(out, x) || x.scalar_type() != at::kFloat || !gradient.is_contiguous()) {
    at::gelu_backward_out(out, gradient, x, "tanh");
    return;
  }
  each_row<3>(
      x, {&out, &gradient, &x}, 1,
      [size = x.size(-1), back = kernels::own_kernels()->gelu_tanh_back](const std::array<char*, 3>& rows) {
        back(reinterpret_cast<float*>(rows[0]), reinterpret_cast<const float*>(rows[1]),
             reinterpret_cast<const float*>(rows[2]), size);
      });
}

at::Tensor activate(Activation activation, const at::Tensor& x, Memory memory) {
  const Activation::Kind kind = activation.kind();
  if (kind == Activation::swish) return swish(x, activation.beta(), memory);
  if (kind == Activation::gelu_quick) return swish(x, 1.702, memory);
  if (kind == Activation::solu) return x * softmax(x, memory);
  const auto* const found = std::ranges::find(kElementwise, kind, &Elementwise::kind);
  if (found != std::ranges::end(kElementwise)) return applied(*found, x, memory);
  throw std::logic_error("xielu has trained numbers: see xielu()");
}

at::Tensor xielu(const at::Tensor& x, const Xielu& numbers) {
  const at::Tensor linear = numbers.beta * x;
  const at::Tensor below = (at::expm1(at::minimum(x, numbers.eps)) - x) * numbers.alpha_n;
  return at::where(x > 0, numbers.alpha_p * x * x, below) + linear;
}

}  // namespace hooked::ops
