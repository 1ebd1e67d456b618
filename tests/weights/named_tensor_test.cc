#include "weights/named_tensor.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <vector>

namespace hooked::weights {
namespace {

/// [[0, 1], [2, 3]]: square, so only the names tell its axes apart.
NamedTensor square() { return {at::tensor({0.0, 1.0, 2.0, 3.0}).view({2, 2}), {Axis::d_model, Axis::d_mlp}}; }

at::Tensor matrix(std::vector<double> values) { return at::tensor(values).view({2, 2}); }

TEST(NamedTensor, CentersOverTheNamedAxis) {
  EXPECT_TRUE(at::equal(centered(square(), Axis::d_model), matrix({-1, -1, 1, 1})));
  EXPECT_TRUE(at::equal(centered(square(), Axis::d_mlp), matrix({-0.5, 0.5, -0.5, 0.5})));
}

TEST(NamedTensor, ScalesAlongTheNamedAxis) {
  const at::Tensor factors = at::tensor({10.0, 100.0});
  EXPECT_TRUE(at::equal(scaled(square(), Axis::d_model, factors), matrix({0, 10, 200, 300})));
  EXPECT_TRUE(at::equal(scaled(square(), Axis::d_mlp, factors), matrix({0, 100, 20, 300})));
}

TEST(NamedTensor, SumsOverTheNamedAxis) {
  const at::Tensor coefficients = at::tensor({10.0, 100.0});
  EXPECT_TRUE(at::equal(weighted_sum(square(), Axis::d_model, coefficients), at::tensor({200.0, 310.0})));
  EXPECT_TRUE(at::equal(weighted_sum(square(), Axis::d_mlp, coefficients), at::tensor({100.0, 320.0})));
}

}  // namespace
}  // namespace hooked::weights
