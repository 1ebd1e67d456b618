#include "models/gelu.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <limits>

namespace hooked::gelu_test {
namespace {

at::Tensor ours(const at::Tensor& x) {
  at::Tensor out = at::empty_like(x);
  gelu_tanh_into(out, x);
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

TEST(Gelu, KeepsShapesAndOddSizes) {
  for (const std::int64_t size : {0, 1, 7, 17, 4099, 1 << 20}) {
    const at::Tensor x = at::randn({size});
    EXPECT_TRUE(at::allclose(ours(x), at::gelu(x, "tanh"), 1e-5, 1e-6)) << size;
  }
  const at::Tensor strided = at::randn({6, 10}).t();
  EXPECT_TRUE(at::allclose(ours(strided), at::gelu(strided, "tanh"), 1e-5, 1e-6));
}

TEST(Gelu, OtherDtypesAreLibTorchs) {
  for (const at::ScalarType dtype : {at::kDouble, at::kBFloat16}) {
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
}  // namespace hooked::gelu_test
