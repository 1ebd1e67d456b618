#include "weights/blocked_weight.h"

#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sum.h>

#include "tests/support/test.h"

namespace hooked::weights::blocked_weight_test {
namespace {

/// [[0, 1], [2, 3]]: square, so only the names tell its axes apart. By rows or by columns: blocks are cut
/// along the one or the other.
BlockedWeight square(bool by_rows) {
  const at::Tensor values = by_rows ? at::tensor({0.0, 1.0, 2.0, 3.0}).view({2, 2})
                                    : at::tensor({0.0, 2.0, 1.0, 3.0}).view({2, 2}).t();
  return {in_memory(values), {Axis::d_model, Axis::d_mlp}};
}

at::Tensor matrix(std::vector<double> values) { return at::tensor(values).view({2, 2}); }

at::Tensor centered(Axis over, bool by_rows) {
  BlockedWeight weight = square(by_rows);
  weight.center(over);
  return weight.values();
}

at::Tensor scaled(Axis along, bool by_rows) {
  BlockedWeight weight = square(by_rows);
  weight.scale(along, at::tensor({10.0, 100.0}));
  return weight.values();
}

class BlockedWeightLayouts : public testing::TestWithParam<bool> {};

TEST_P(BlockedWeightLayouts, CentersOverTheNamedAxis) {
  EXPECT_TRUE(at::equal(centered(Axis::d_model, GetParam()), matrix({-1, -1, 1, 1})));
  EXPECT_TRUE(at::equal(centered(Axis::d_mlp, GetParam()), matrix({-0.5, 0.5, -0.5, 0.5})));
}

TEST_P(BlockedWeightLayouts, ScalesAlongTheNamedAxis) {
  EXPECT_TRUE(at::equal(scaled(Axis::d_model, GetParam()), matrix({0, 10, 200, 300})));
  EXPECT_TRUE(at::equal(scaled(Axis::d_mlp, GetParam()), matrix({0, 100, 20, 300})));
}

TEST_P(BlockedWeightLayouts, SumsOverTheNamedAxes) {
  const BlockedWeight weight = square(GetParam());
  const at::Tensor coefficients = at::tensor({10.0, 100.0});
  EXPECT_TRUE(at::equal(weight.weighted_sum({Axis::d_model}, coefficients), at::tensor({200.0, 310.0})));
  EXPECT_TRUE(at::equal(weight.weighted_sum({Axis::d_mlp}, coefficients), at::tensor({100.0, 320.0})));
  const at::Tensor both = weight.weighted_sum({Axis::d_model, Axis::d_mlp}, matrix({1, 10, 100, 1000}));
  EXPECT_EQ(both.dim(), 0);
  EXPECT_EQ(both.item<double>(), 3210.0);
}

INSTANTIATE_TEST_SUITE_P(ByRowsAndByColumns, BlockedWeightLayouts, testing::Bool());

// Many blocks, cut along either axis, transposed or not: the same numbers as the whole matrix in one go.
TEST(BlockedWeight, ManyBlocksAreOneMatrix) {
  const at::Tensor rows = at::randn({1000, 700}, at::kDouble);
  ASSERT_GT(rows.numel(), 2 * kBlockElements);
  const at::Tensor factors = at::randn({700}, at::kDouble), weights = at::randn({1000}, at::kDouble);
  at::Tensor wanted = rows * factors;
  wanted = wanted - wanted.mean(0, /*keepdim=*/true);
  wanted = wanted - wanted.mean(1, /*keepdim=*/true);
  for (const at::Tensor& stored : {rows, rows.t().contiguous().t()}) {
    BlockedWeight weight(in_memory(stored), {Axis::vocab_in, Axis::d_model});
    weight.scale(Axis::d_model, factors);
    weight.center(Axis::vocab_in);
    weight.center(Axis::d_model);
    EXPECT_LT((weight.values() - wanted).abs().max().item<double>(), 1e-13);
    EXPECT_LT((weight.transposed().values() - wanted.t()).abs().max().item<double>(), 1e-13);
    const at::Tensor sum = (wanted * weights.unsqueeze(1)).sum(0);
    EXPECT_LT((weight.weighted_sum({Axis::vocab_in}, weights) - sum).abs().max().item<double>(), 1e-10);
    EXPECT_LT((weight.transposed().weighted_sum({Axis::vocab_in}, weights) - sum).abs().max().item<double>(),
              1e-10);
  }
}

}  // namespace
}  // namespace hooked::weights::blocked_weight_test
