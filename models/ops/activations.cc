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

#include <numbers>
#include <stdexcept>
#include <vector>

#include "models/ops/gelu.h"
#include "models/ops/ops.h"
#include "models/ops/recorded.h"
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

// Applies `out(result, x)`, an elementwise function with the gradient `back(result, gradient, x)`. `plain(x)`
// is the same by LibTorch's differentiable operators.
template <typename Out, typename Back, typename Plain>
at::Tensor elementwise(const at::Tensor& x, Memory memory, const Out& out, const Back& back,
                       const Plain& plain) {
  if (memory.workspace == nullptr) return plain(x);
  const at::Tensor input = without_history(x);
  at::Tensor result = memory.workspace->empty(x.sizes(), x.options());
  out(result, input);
  if (!records(x)) return result;
  return recorded(result, {x}, [memory = *memory.workspace, input, back](const at::Tensor& gradient) {
    at::Tensor passed = memory.empty(input.sizes(), input.options());
    back(passed, gradient, input);
    return std::vector{passed};
  });
}

}  // namespace

at::Tensor activate(Activation activation, const at::Tensor& x, Memory memory) {
  switch (activation.kind()) {
    case Activation::relu:
      return elementwise(
          x, memory, [](at::Tensor& out, const at::Tensor& in) { at::clamp_min_out(out, in, 0); },
          [](at::Tensor& out, const at::Tensor& gradient, const at::Tensor& in) {
            at::threshold_backward_out(out, gradient, in, 0);
          },
          [](const at::Tensor& in) { return at::relu(in); });
    case Activation::gelu:
      return elementwise(
          x, memory, [](at::Tensor& out, const at::Tensor& in) { at::gelu_out(out, in, "none"); },
          [](at::Tensor& out, const at::Tensor& gradient, const at::Tensor& in) {
            at::gelu_backward_out(out, gradient, in, "none");
          },
          [](const at::Tensor& in) { return at::gelu(in); });
    case Activation::gelu_tanh:
      return elementwise(x, memory, gelu_tanh_into, gelu_tanh_back_into,
                         [](const at::Tensor& in) { return at::gelu(in, "tanh"); });
    case Activation::gelu_fast:
      return gelu_with_root(x, 0.7978845608);
    case Activation::gelu_bloom:
      return gelu_with_root(x, 0.79788456);
    case Activation::gelu_quick:
      return swish(x, 1.702, memory);
    case Activation::silu:
      return elementwise(
          x, memory, [](at::Tensor& out, const at::Tensor& in) { at::silu_out(out, in); },
          [](at::Tensor& out, const at::Tensor& gradient, const at::Tensor& in) {
            at::silu_backward_out(out, gradient, in);
          },
          [](const at::Tensor& in) { return at::silu(in); });
    case Activation::solu:
      return x * softmax(x, memory);
    case Activation::relu_squared:
      return at::relu(x).square();
    case Activation::sigmoid:
      return at::sigmoid(x);
    case Activation::gelu_clipped:
      return at::clamp(at::gelu(x), -10.0, 10.0);
    case Activation::hard_swish:
      return at::hardswish(x);
    case Activation::identity:
      return x;
    case Activation::laplace:
      return 0.5 * (1.0 + at::erf((x - 0.707107) / (0.282095 * std::numbers::sqrt2)));
    case Activation::leaky_relu:
      return at::leaky_relu(x, 0.01);
    case Activation::mish:
      return at::mish(x);
    case Activation::relu6:
      return at::hardtanh(x, 0.0, 6.0);
    case Activation::sqrt_softplus:
      return at::softplus(x).sqrt();
    case Activation::tanh:
      return at::tanh(x);
    case Activation::swish:
      return swish(x, activation.beta(), memory);
    case Activation::xielu:
      break;
  }
  throw std::logic_error("xielu has trained numbers: see xielu()");
}

at::Tensor xielu(const at::Tensor& x, const Xielu& numbers) {
  const at::Tensor linear = numbers.beta * x;
  const at::Tensor below = (at::expm1(at::minimum(x, numbers.eps)) - x) * numbers.alpha_n;
  return at::where(x > 0, numbers.alpha_p * x * x, below) + linear;
}

}  // namespace hooked::ops
