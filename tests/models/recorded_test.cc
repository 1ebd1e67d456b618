#include "models/ops/recorded.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hooked/core/error.h"
#include "models/ops/activations.h"
#include "models/ops/ops.h"
#include "models/storage/workspace.h"
#include "tests/models/random_graph.h"
#include "tests/support/thrown_by.h"

namespace hooked::recorded_test {
namespace {

using Inputs = std::vector<at::Tensor>;
using Operation = std::function<at::Tensor(const Inputs&, const hooked::Run&)>;

/// Runs with a workspace and without: recorded by us, and by LibTorch.
class Recorded : public testing::Test {
 protected:
  hooked::Run run_in(const Workspace* memory) const {
    return {.watch = Watch(std::make_shared<const WatchPlan>(points_, Reach::everything(points_)), {}),
            .sequence = Sequence(config_, Stack::blocks, {1, 1, {}, at::kCPU}),
            .workspace = memory};
  }

  struct Outcome {
    at::Tensor value;
    std::vector<at::Tensor> gradients;
  };

  Outcome outcome(const Operation& operation, const Inputs& given, const at::Tensor& gradient,
                  const Workspace* memory) const {
    Inputs inputs;
    for (const at::Tensor& input : given) inputs.push_back(input.detach().requires_grad_(true));
    const at::Tensor value = operation(inputs, run_in(memory));
    Outcome result{value.detach(), torch::autograd::grad({value}, inputs, {gradient})};
    return result;
  }

  /// The same values and gradients from both, to float precision.
  void expect_alike(const Operation& operation, const Inputs& inputs, const at::Tensor& gradient,
                    double tolerance, const std::string& what) const {
    const Outcome ours = outcome(operation, inputs, gradient, &workspace_);
    const Outcome theirs = outcome(operation, inputs, gradient, nullptr);
    const auto difference = [](const at::Tensor& a, const at::Tensor& b) {
      const at::Tensor exact = b.to(at::kDouble);
      return ((a.to(at::kDouble) - exact).abs() / exact.abs().clamp_min(1.0)).max().item<double>();
    };
    EXPECT_LT(difference(ours.value, theirs.value), tolerance) << what;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      ASSERT_EQ(ours.gradients[i].sizes(), inputs[i].sizes()) << what;
      EXPECT_LT(difference(ours.gradients[i], theirs.gradients[i]), tolerance) << what << ", input " << i;
    }
  }

  ModelConfig config_ = graph_config();
  PointIndex points_{config_};
  Workspace workspace_;
};

double tolerance(at::ScalarType dtype) {
  return dtype == at::kDouble ? 1e-12 : dtype == at::kFloat ? 1e-4 : 6e-2;
}

/// Gradients in the layouts that occur: contiguous, one number for all, in another order, with few rows.
std::vector<at::Tensor> gradients_like(at::IntArrayRef sizes, at::ScalarType dtype) {
  const at::Tensor few_rows = at::zeros(sizes, dtype);
  few_rows.select(1, 2).copy_(at::randn(few_rows.select(1, 2).sizes()));
  return {at::randn(sizes).to(dtype), at::ones({1}, dtype).expand(sizes),
          at::randn({sizes[1], sizes[0], sizes[2]}).to(dtype).transpose(0, 1), few_rows,
          at::zeros(sizes, dtype)};
}

const at::ScalarType kDtypes[] = {at::kFloat, at::kBFloat16, at::kDouble};

TEST_F(Recorded, ProductsPassGradients) {
  for (const at::ScalarType dtype : kDtypes) {
    const at::Tensor numbers = at::randn({128, 30}).to(dtype) * 0.2, bias = at::randn({128}).to(dtype);
    const Matrix matrix(128, 30, {.out = 64, .in = 30}, at::TensorOptions(dtype), Storage::fastest);
    matrix.as_out_in().write(numbers);
    const Inputs whole{at::randn({2, 5, 30}).to(dtype)};
    const Inputs strided{at::randn({2, 9, 30}).to(dtype).narrow(1, 2, 5)};
    for (const at::Tensor& gradient : gradients_like({2, 5, 128}, dtype)) {
      for (const Inputs& inputs : {whole, strided}) {
        expect_alike(
            [&](const Inputs& in, const hooked::Run& run) { return ops::linear(in[0], matrix, bias, run); },
            inputs, gradient, tolerance(dtype), "a matrix");
        expect_alike(
            [&](const Inputs& in, const hooked::Run& run) { return ops::linear(in[0], numbers, {}, run); },
            inputs, gradient, tolerance(dtype), "a plain weight");
      }
    }
  }
}

TEST_F(Recorded, SumsProductsAndPartsPassGradients) {
  for (const at::ScalarType dtype : kDtypes) {
    const Inputs inputs{at::randn({2, 5, 12}).to(dtype), at::randn({2, 5, 12}).to(dtype)};
    for (const at::Tensor& gradient : gradients_like({2, 5, 12}, dtype)) {
      expect_alike([](const Inputs& in, const hooked::Run& run) { return ops::add(in[0], in[1], run); },
                   inputs, gradient, tolerance(dtype), "add");
      expect_alike([](const Inputs& in, const hooked::Run& run) { return ops::multiply(in[0], in[1], run); },
                   inputs, gradient, tolerance(dtype), "multiply");
      expect_alike([](const Inputs& in, const hooked::Run& run) { return ops::add(in[0], in[0], run); },
                   {inputs[0]}, gradient, tolerance(dtype), "one that is added to itself");
    }
    for (const at::Tensor& gradient : gradients_like({2, 5, 4}, dtype)) {
      expect_alike(
          [](const Inputs& in, const hooked::Run& run) {
            const auto parts = ops::split(in[0], {4, 3, 4, 1}, -1, run);  // the last two have no gradient
            return parts[0] + parts[1].sum(-1, /*keepdim=*/true);
          },
          {inputs[0]}, gradient, tolerance(dtype), "split");
    }
  }
}

TEST_F(Recorded, ActivationsPassGradients) {
  for (const at::ScalarType dtype : kDtypes) {
    const Inputs whole{at::randn({2, 5, 12}).to(dtype)};
    const Inputs strided{at::randn({2, 5, 30}).to(dtype).narrow(-1, 3, 12)};
    for (const auto kind : {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu,
                            Activation::gelu_quick, Activation::solu}) {
      for (const at::Tensor& gradient : gradients_like({2, 5, 12}, dtype)) {
        for (const Inputs& inputs : {whole, strided}) {
          expect_alike(
              [&](const Inputs& in, const hooked::Run& run) { return ops::activate(kind, in[0], run); },
              inputs, gradient, tolerance(dtype), std::string(activation_name(kind)));
        }
      }
    }
  }
}

// Only operations through which a gradient is needed are recorded.
TEST_F(Recorded, NothingIsRecordedWithoutAGradient) {
  const at::Tensor x = at::randn({2, 3, 4}), leaf = at::randn({2, 3, 4}).requires_grad_(true);
  const hooked::Run run = run_in(&workspace_);
  EXPECT_FALSE(ops::add(x, x, run).requires_grad());
  EXPECT_FALSE(ops::activate(Activation::gelu, x, run).requires_grad());
  EXPECT_TRUE(ops::multiply(x, leaf, run).requires_grad());
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(ops::add(leaf, leaf, run).requires_grad());
}

TEST_F(Recorded, SecondDerivativesAreRefused) {
  const at::Tensor x = at::randn({2, 3, 4}).requires_grad_(true);
  const at::Tensor y = ops::activate(Activation::gelu_tanh, x, run_in(&workspace_));
  const std::string text = text_thrown_by<HookError>(
      [&] { torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true); });
  EXPECT_NE(text.find("[gradients]"), std::string::npos) << text;
  EXPECT_NE(text.find("second derivatives"), std::string::npos) << text;
}

TEST_F(Recorded, AGraphPassesTwiceOnlyWhereItIsRetained) {
  const at::Tensor x = at::randn({2, 3, 4}).requires_grad_(true);
  const at::Tensor y = ops::activate(Activation::silu, x, run_in(&workspace_)).sum();
  const auto first = torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true);
  const auto second = torch::autograd::grad({y}, {x});
  EXPECT_TRUE(at::equal(first[0], second[0]));
  EXPECT_THROW(torch::autograd::grad({y}, {x}), HookError);
}

// A metric may keep the logits, and with them the graph, after model and workspace are gone.
TEST_F(Recorded, AGraphOutlivesItsWorkspace) {
  const at::Tensor x = at::randn({64, 16, 64}).requires_grad_(true);
  at::Tensor y;
  {
    const Workspace memory;
    const hooked::Run run = run_in(&memory);
    y = ops::multiply(ops::activate(Activation::silu, x, run), x, run);
  }
  const at::Tensor gradient = torch::autograd::grad({y.sum()}, {x})[0];
  const at::Tensor wide = x.detach().to(at::kDouble).requires_grad_(true);
  const at::Tensor exact = torch::autograd::grad({(wide * wide * wide.sigmoid()).sum()}, {wide})[0];
  EXPECT_LT((gradient.to(at::kDouble) - exact).abs().max().item<double>(), 1e-5);
}

// Memory is returned during the backward pass: successive runs take the same.
TEST_F(Recorded, MemoryIsTakenAgain) {
  const auto one = [&] {
    const at::Tensor x = at::randn({256, 1, 1024}).requires_grad_(true);
    at::Tensor y = x;
    for (int i = 0; i < 4; ++i) y = ops::activate(Activation::gelu_tanh, y, run_in(&workspace_));
    torch::autograd::grad({y.sum()}, {x});
  };
  one();
  const std::size_t mapped = workspace_.mapped_bytes();
  for (int i = 0; i < 5; ++i) one();
  EXPECT_EQ(workspace_.mapped_bytes(), mapped);
}

}  // namespace
}  // namespace hooked::recorded_test
