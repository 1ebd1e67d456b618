#include "models/ops/activations.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <limits>

#include "hooked/core/kernel_set.h"

namespace hooked::activations_test {
namespace {

at::Tensor ours(const at::Tensor& x) {
  at::Tensor out = at::empty_like(x);
  ops::gelu_tanh_into(out, x);
  return out;
}

TEST(Gelu, IsExactToFloatPrecision) {
  const at::Tensor x = at::cat({at::linspace(-12, 12, 200'001), at::randn({777}) * 100});
  const at::Tensor exact = at::gelu(x.to(at::kDouble), "tanh");
  const at::Tensor off = (ours(x).to(at::kDouble) - exact).abs();
  EXPECT_LT((off / x.to(at::kDouble).abs().clamp_min(1e-3)).max().item<double>(), 4e-7);
  // No farther off than LibTorch's own.
  const double theirs = (at::gelu(x, "tanh").to(at::kDouble) - exact).abs().max().item<double>();
  EXPECT_LE(off.max().item<double>(), 2 * theirs);
}

// All bfloat16 numbers: a result rounded once is nearer to the exact number than to its
// neighbours.
TEST(Gelu, OfABrainFloatIsRoundedOnce) {
  const at::Tensor x = at::arange(1 << 16, at::kInt).to(at::kShort).view(at::kBFloat16);
  const at::Tensor exact = at::gelu(x.to(at::kDouble), "tanh"), got = ours(x).to(at::kDouble);
  const at::Tensor finite = exact.isfinite();
  EXPECT_TRUE(at::equal(got.isnan(), exact.isnan()));
  const at::Tensor off = (got - exact).abs() / exact.abs().clamp_min(1e-3);
  EXPECT_LT(off.masked_select(finite).max().item<double>(), 1.001 / 256);
}

at::Tensor ours_back(const at::Tensor& gradient, const at::Tensor& x) {
  at::Tensor out = at::empty_like(x);
  ops::gelu_tanh_back_into(out, gradient, x);
  return out;
}

TEST(Gelu, ItsDerivativeIsExactToFloatPrecision) {
  const at::Tensor x = at::cat({at::linspace(-12, 12, 200'001), at::randn({777}) * 100});
  const at::Tensor gradient = at::randn(x.sizes());
  const at::Tensor exact = at::gelu_backward(gradient.to(at::kDouble), x.to(at::kDouble), "tanh");
  const at::Tensor off = (ours_back(gradient, x).to(at::kDouble) - exact).abs();
  EXPECT_LT((off / gradient.to(at::kDouble).abs().clamp_min(1e-30)).max().item<double>(), 5e-6);
}

TEST(Gelu, TheWayBackTakesOddSizesOtherStridesAndDtypes) {
  for (const std::int64_t size : {0, 1, 7, 17, 4099}) {
    const at::Tensor x = at::randn({size}), gradient = at::randn({size});
    EXPECT_TRUE(at::allclose(ours_back(gradient, x), at::gelu_backward(gradient, x, "tanh"), 1e-5, 1e-6));
  }
  const at::Tensor x = at::randn({6, 10}).t(), gradient = at::randn({10, 1}).expand({10, 6});
  EXPECT_TRUE(at::allclose(ours_back(gradient, x), at::gelu_backward(gradient, x, "tanh"), 1e-5, 1e-6));
  EXPECT_TRUE(
      at::allclose(ours_back(gradient, x.contiguous()), at::gelu_backward(gradient, x, "tanh"), 1e-5, 1e-6));
  for (const at::ScalarType dtype : {at::kDouble, at::kBFloat16}) {
    const at::Tensor other = at::randn({100}).to(dtype), ones = at::ones_like(other);
    EXPECT_TRUE(at::equal(ours_back(ones, other), at::gelu_backward(ones, other, "tanh")));
  }
}

TEST(Gelu, ItsDerivativeFarOut) {
  if (kernel_set() == KernelSet::plain) GTEST_SKIP() << "LibTorch's derivative is not a number there";
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const at::Tensor x = at::tensor({1e30f, -1e30f, kInfinity, std::numeric_limits<float>::quiet_NaN()});
  const at::Tensor got = ours_back(at::ones({4}), x);
  EXPECT_EQ(got[0].item<float>(), 1.0f);
  EXPECT_EQ(got[1].item<float>(), 0.0f);
  EXPECT_TRUE(got[3].isnan().item<bool>());
}

TEST(Gelu, KeepsShapesAndOddSizes) {
  for (const std::int64_t size : {0, 1, 7, 17, 4099, 1 << 20}) {
    const at::Tensor x = at::randn({size});
    EXPECT_TRUE(at::allclose(ours(x), at::gelu(x, "tanh"), 1e-5, 1e-6)) << size;
  }
  const at::Tensor strided = at::randn({6, 10}).t();
  EXPECT_TRUE(at::allclose(ours(strided), at::gelu(strided, "tanh"), 1e-5, 1e-6));
}

TEST(Gelu, OtherDtypesAreLibTorchs) {
  for (const at::ScalarType dtype : {at::kDouble, at::kHalf}) {
    const at::Tensor x = at::randn({100}).to(dtype);
    EXPECT_TRUE(at::equal(ours(x), at::gelu(x, "tanh")));
  }
}

TEST(Gelu, NumbersThatAreNotFiniteStayVisible) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const at::Tensor got =
      ours(at::tensor({std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity, 0.0f}));
  EXPECT_TRUE(got[0].isnan().item<bool>());
  EXPECT_EQ(got[1].item<float>(), kInfinity);
  EXPECT_TRUE(got[2].isnan().item<bool>()) << "as LibTorch has it";
  EXPECT_EQ(got[3].item<float>(), 0.0f);
}

}  // namespace
}  // namespace hooked::activations_test
