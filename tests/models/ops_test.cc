#include "models/ops/ops.h"

#include <ATen/ops/linear.h>

#include <numbers>

#include "models/ops/activations.h"
#include "tests/models/random_graph.h"
#include "tests/support/activations.h"

namespace hooked::ops_test {
namespace {

constexpr double kPoints[] = {-24.0, -8.0, -2.5, -1.0, -0.3, 0.0, 1e-3, 0.7, 1.0, 3.0, 6.5, 8.0, 12.0, 24.0};

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double tanh_gelu(double x, double root) {
  return 0.5 * x * (1.0 + std::tanh(root * (x + 0.044715 * x * x * x)));
}

double by_formula(Activation activation, double x) {
  switch (activation.kind()) {
    case Activation::relu:
      return std::max(0.0, x);
    case Activation::gelu:
      return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
    case Activation::gelu_tanh:
      return tanh_gelu(x, std::sqrt(2.0 / std::numbers::pi));
    case Activation::gelu_fast:
      return tanh_gelu(x, 0.7978845608);
    case Activation::gelu_bloom:
      return tanh_gelu(x, 0.79788456);
    case Activation::xielu:
      break;
    case Activation::swish:
      return x * sigmoid(activation.beta() * x);
    case Activation::gelu_clipped:
      return std::clamp(by_formula(Activation::gelu, x), -10.0, 10.0);
    case Activation::hard_swish:
      return x * std::clamp(x + 3.0, 0.0, 6.0) / 6.0;
    case Activation::identity:
      return x;
    case Activation::laplace:
      return 0.5 * std::erfc((0.707107 - x) / (0.282095 * std::numbers::sqrt2));
    case Activation::leaky_relu:
      return std::max(0.0, x) + 0.01 * std::min(0.0, x);
    case Activation::mish:
      return x * std::tanh(std::log(1.0 + std::exp(x)));
    case Activation::relu6:
      return std::clamp(x, 0.0, 6.0);
    case Activation::sqrt_softplus:
      return x > 20.0 ? std::sqrt(x) : std::sqrt(std::log1p(std::exp(x)));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::gelu_quick:
      return x * sigmoid(1.702 * x);
    case Activation::silu:
      return x * sigmoid(x);
    case Activation::relu_squared:
      return std::max(0.0, x) * std::max(0.0, x);
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::solu: {
      double sum = 0.0;
      for (const double other : kPoints) sum += std::exp(other);
      return x * std::exp(x) / sum;
    }
  }
  return NAN;
}

std::vector<Activation> without_weights() {
  std::vector<Activation> activations = all_activations();
  std::erase_if(activations, [](Activation a) { return a.kind() == Activation::xielu; });
  std::ranges::replace(activations, Activation(Activation::swish), Activation::swish_with(0.6));
  return activations;
}

class ActivationFunction : public testing::TestWithParam<Activation> {};

INSTANTIATE_TEST_SUITE_P(All, ActivationFunction, testing::ValuesIn(without_weights()),
                         [](const auto& info) { return std::string(activation_name(info.param)); });

TEST(XieluFunction, EqualsItsFormula) {
  const ops::Xielu numbers{at::tensor({0.8}, at::kDouble), at::tensor({0.6}, at::kDouble),
                           at::tensor({0.5}, at::kDouble), at::tensor({-0.2}, at::kDouble)};
  const at::Tensor x = at::tensor(std::vector<double>(std::begin(kPoints), std::end(kPoints)), at::kDouble);
  const at::Tensor y = ops::xielu(x, numbers);
  for (std::size_t i = 0; i < std::size(kPoints); ++i) {
    const double p = kPoints[i];
    const double curved = p > 0 ? 0.8 * p * p : (std::expm1(std::min(p, -0.2)) - p) * 0.6;
    EXPECT_NEAR(y[static_cast<std::int64_t>(i)].item<double>(), curved + 0.5 * p, 1e-14) << p;
  }
}

TEST_P(ActivationFunction, EqualsItsFormulaWithAndWithoutAWorkspace) {
  const ModelConfig config = graph_config();
  const PointIndex points(config);
  hooked::Run run{.watch = Watch(std::make_shared<const WatchPlan>(points, Reach::everything(points)), {}),
                  .sequence = Sequence(config, Stack::blocks, {1, 1, {}, at::kCPU})};
  const Workspace workspace;
  const at::Tensor x = at::tensor(std::vector<double>(std::begin(kPoints), std::end(kPoints)), at::kDouble);
  for (const Workspace* where : {static_cast<const Workspace*>(nullptr), &workspace}) {
    run.workspace = where;
    const at::Tensor y = ops::activate(GetParam(), x, run);
    for (std::size_t i = 0; i < std::size(kPoints); ++i) {
      EXPECT_NEAR(y[static_cast<std::int64_t>(i)].item<double>(), by_formula(GetParam(), kPoints[i]), 1e-13)
          << kPoints[i];
    }
  }
}

// Half precision's products, exact except for rounding of float32 sums, for every way to multiply rows.
TEST(UnroundedLinear, AddsUpInFloat32WhateverTheDtype) {
  const Workspace workspace;
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf, at::kFloat, at::kDouble}) {
    const at::ScalarType sums = dtype == at::kDouble ? at::kDouble : at::kFloat;
    for (const std::int64_t rows : {1, 7, 8, 9, 40, 130}) {
      for (const std::int64_t in : {3, 66, 129}) {
        const at::Tensor x = at::randn({1, rows, in}, at::kDouble).to(dtype);
        const at::Tensor weight = at::randn({3001, in}, at::kDouble).to(dtype);
        const at::Tensor bias = at::randn({3001}, at::kDouble).to(dtype);
        const at::Tensor exact = at::linear(x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble));
        for (const Workspace* where : {static_cast<const Workspace*>(nullptr), &workspace}) {
          const at::Tensor y = ops::unrounded_linear(x, Matrix(weight), bias, Memory{where});
          EXPECT_EQ(y.scalar_type(), sums);
          EXPECT_LT((y.to(at::kDouble) - exact).abs().max().item<double>(), 5e-6 * std::sqrt(in))
              << dtype << ", rows " << rows << " of " << in;
          const at::Tensor bare = ops::unrounded_linear(x, Matrix(weight), {}, Memory{where});
          EXPECT_LT((bare + bias.to(sums) - y).abs().max().item<double>(), 1e-5);
        }
      }
    }
  }
}

TEST(UnroundedLinear, PassesGradientsBackInTheDtypeOfItsInput) {
  const Workspace workspace;
  const at::Tensor weight = at::randn({50, 24}).to(at::kBFloat16), asked = at::randn({2, 3, 50});
  at::Tensor passed[2];
  const at::Tensor x = at::randn({2, 3, 24}).to(at::kBFloat16);
  for (const Workspace* where : {static_cast<const Workspace*>(nullptr), &workspace}) {
    at::Tensor leaf = x.clone().set_requires_grad(true);
    (ops::unrounded_linear(leaf, Matrix(weight), {}, Memory{where}) * asked).sum().backward();
    passed[where != nullptr] = leaf.grad();
  }
  EXPECT_EQ(passed[1].scalar_type(), at::kBFloat16);
  EXPECT_LT((passed[0] - passed[1]).abs().max().item<double>(), 0.02 * passed[0].abs().max().item<double>());
}

TEST(SoftCap, IsBetweenTheCapsAndNearTheIdentityAtZero) {
  const at::Tensor x = at::tensor({-1e6, -3.0, 0.0, 1e-4, 1e6}, at::kDouble);
  const at::Tensor y = ops::soft_cap(x, 2.0);
  EXPECT_DOUBLE_EQ(y[0].item<double>(), -2.0);
  EXPECT_NEAR(y[1].item<double>(), 2.0 * std::tanh(-1.5), 1e-15);
  EXPECT_DOUBLE_EQ(y[2].item<double>(), 0.0);
  EXPECT_NEAR(y[3].item<double>(), 1e-4, 1e-12);
  EXPECT_DOUBLE_EQ(y[4].item<double>(), 2.0);
}

TEST(Mlp, GatedIsTheActivatedGateTimesTheUpBranch) {
  for (const bool after_product : {false, true}) {
    ModelConfig config = graph_config();
    config.mlp = MlpKind::gated;
    config.gated_bias_after_product = after_product;
    const RandomGraph graph(config);
    const ActivationCache cache = graph.everything();
    const at::Tensor x =
        cache[act::ln2_normalized(0)] * graph.weight("blocks.0.ln2.w") + graph.weight("blocks.0.ln2.b");
    at::Tensor gate = x.matmul(graph.weight("blocks.0.mlp.W_gate")),
               up = x.matmul(graph.weight("blocks.0.mlp.W_in"));
    const at::Tensor b_in = graph.weight("blocks.0.mlp.b_in");
    if (!after_product) {
      gate = gate + graph.weight("blocks.0.mlp.b_gate");
      up = up + b_in;
    }
    EXPECT_LT(relative_difference(cache[act::pre(0)], gate), kDoubleTolerance);
    EXPECT_LT(relative_difference(cache[act::pre_linear(0)], up), kDoubleTolerance);
    at::Tensor post = gate * 0.5 * (1.0 + (gate / std::numbers::sqrt2).erf()) * up;
    if (after_product) post = post + b_in;
    EXPECT_LT(relative_difference(cache[act::post(0)], post), kDoubleTolerance);
    EXPECT_LT(relative_difference(cache[act::mlp_out(0)], post.matmul(graph.weight("blocks.0.mlp.W_out")) +
                                                              graph.weight("blocks.0.mlp.b_out")),
              kDoubleTolerance);
  }
}

TEST(Mlp, NeuronsOfSoluModelsAreNormed) {
  ModelConfig config = graph_config();
  config.activation = Activation::solu;
  config.mlp_norm = true;
  const RandomGraph graph(config);
  const ActivationCache cache = graph.everything();
  const at::Tensor pre = cache[act::pre(0)], mid = cache[act::mid(0)];
  EXPECT_LT(relative_difference(mid, pre * pre.softmax(-1)), kDoubleTolerance);
  const at::Tensor centred = mid - mid.mean(-1, true);
  const at::Tensor scale = (centred.square().mean(-1, true) + config.eps).sqrt();
  EXPECT_LT(relative_difference(cache[act::mlp_ln_scale(0)], scale), kDoubleTolerance);
  EXPECT_LT(relative_difference(cache[act::post(0)], centred / scale * graph.weight("blocks.0.mlp.ln.w") +
                                                         graph.weight("blocks.0.mlp.ln.b")),
            kDoubleTolerance);
}

}  // namespace
}  // namespace hooked::ops_test
