#include "models/run.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "tests/models/random_graph.h"

namespace hooked::run_test {
namespace {

class RunOf : public testing::Test {
 protected:
  hooked::Run make(const at::Tensor& mask = {}) const {
    return hooked::Run(config_, Watch(points_, Reach::everything(points_)), {2, 5, mask, at::kCPU});
  }
  /// Row 0 begins with two paddings, row 1 ends with one.
  at::Tensor mask_ = at::tensor({0, 0, 1, 1, 1, 1, 1, 1, 1, 0}, at::kLong).view({2, 5});
  ModelConfig config_ = graph_config();
  PointIndex points_{config_};
};

TEST_F(RunOf, PositionsCountRealTokens) {
  EXPECT_TRUE(at::equal(make().sequence(Stack::blocks).positions(),
                        at::tensor({0, 1, 2, 3, 4}, at::kLong).unsqueeze(0)));
  EXPECT_TRUE(at::equal(make(mask_).sequence(Stack::blocks).positions(),
                        at::tensor({0, 0, 0, 1, 2, 0, 1, 2, 3, 3}, at::kLong).view({2, 5})));
}

TEST_F(RunOf, PlainCausalMaskIsRecognised) {
  hooked::Run run = make();
  EXPECT_TRUE(run.sequence(Stack::blocks).layer_kind(0, {}).plain_causal);
  hooked::Run padded = make(mask_);
  const LayerKind& kind = padded.sequence(Stack::blocks).layer_kind(0, {});
  EXPECT_FALSE(kind.plain_causal);
  ASSERT_EQ(kind.blocked.sizes(), (at::IntArrayRef{2, 1, 5, 5}));
  EXPECT_TRUE(kind.blocked[0][0][4][1].item<bool>());
  EXPECT_FALSE(kind.blocked[0][0][4][2].item<bool>());
  EXPECT_TRUE(kind.blocked[1][0][2][3].item<bool>());
}

TEST_F(RunOf, WindowAsLongAsTheInputIsNoWindow) {
  config_.window = 5;
  config_.windowed_layers = {true, true};
  hooked::Run run = make();
  EXPECT_TRUE(run.sequence(Stack::blocks).layer_kind(0, {}).plain_causal);
}

TEST_F(RunOf, WindowCountsItsOwnPosition) {
  config_.window = 2;
  config_.windowed_layers = {true, false};
  hooked::Run run = make();
  const at::Tensor blocked = run.sequence(Stack::blocks).layer_kind(0, {}).blocked[0][0];
  EXPECT_FALSE(blocked[3][3].item<bool>());
  EXPECT_FALSE(blocked[3][2].item<bool>());
  EXPECT_TRUE(blocked[3][1].item<bool>());
  EXPECT_TRUE(run.sequence(Stack::blocks).layer_kind(1, {}).plain_causal);
}

TEST_F(RunOf, ColumnsAfterRememberedOnesAreTheEndOfTheWhole) {
  config_.window = 3;
  config_.windowed_layers = {true, false};
  config_.positions = PositionKind::alibi;
  config_.alibi_slopes = {0.5, 0.25, 0.125, 0.0625};
  for (const at::Tensor& mask : {at::Tensor(), mask_}) {
    hooked::Run whole = make(mask);
    KvCache remembered(config_, {.batch = 2, .capacity = 5}, at::kCPU);
    const auto columns = [&](std::int64_t begin, std::int64_t length) {
      return mask.defined() ? mask.narrow(1, begin, length).to(at::kBool) : at::Tensor();
    };
    remembered.advance(3, columns(0, 3));
    hooked::Run rest(config_, Watch(points_, Reach::everything(points_)),
                     {.own = {.batch = 2,
                              .length = 2,
                              .attention_mask = columns(3, 2),
                              .device = at::kCPU,
                              .extends = &remembered}});
    EXPECT_EQ(rest.past(), 3);
    EXPECT_TRUE(at::equal(rest.sequence(Stack::blocks).positions(),
                          whole.sequence(Stack::blocks).positions().narrow(1, 3, 2)));
    for (const std::int64_t layer : {0, 1}) {
      const LayerKind &here = rest.sequence(Stack::blocks).layer_kind(layer, {}),
                      &full = whole.sequence(Stack::blocks).layer_kind(layer, {});
      EXPECT_TRUE(at::equal(here.blocked, full.blocked.narrow(2, 3, 2)));
      EXPECT_TRUE(at::equal(here.bias, full.bias.narrow(2, 3, 2)));
      EXPECT_FALSE(here.plain_causal);
    }
  }
}

TEST_F(RunOf, TheNewestColumnAloneIsBlockedFromNothing) {
  KvCache remembered(config_, {.batch = 2, .capacity = 5}, at::kCPU);
  remembered.advance(4, {});
  hooked::Run newest(
      config_, Watch(points_, Reach::everything(points_)),
      {.own = {.batch = 2, .length = 1, .attention_mask = {}, .device = at::kCPU, .extends = &remembered}});
  EXPECT_FALSE(newest.sequence(Stack::blocks).layer_kind(0, {}).blocked.defined());
  EXPECT_FALSE(newest.sequence(Stack::blocks).layer_kind(0, {}).plain_causal);
}

TEST_F(RunOf, PaddingBetweenTokensDoesNotMoveThemOutOfTheWindow) {
  config_.window = 2;
  config_.windowed_layers = {true, true};
  const at::Tensor mask = at::tensor({1, 1, 0, 0, 1}, at::kLong).unsqueeze(0).expand({2, 5});
  hooked::Run run = make(mask);
  const at::Tensor blocked = run.sequence(Stack::blocks).layer_kind(0, {}).blocked[0][0];
  EXPECT_FALSE(blocked[4][1].item<bool>()) << "the token before it";
  EXPECT_TRUE(blocked[4][0].item<bool>());
}

TEST_F(RunOf, BidirectionalLayersBlockNothing) {
  config_.direction = AttentionDirection::bidirectional;
  hooked::Run run = make();
  EXPECT_FALSE(run.sequence(Stack::blocks).layer_kind(0, {}).blocked.defined());
  EXPECT_FALSE(run.sequence(Stack::blocks).layer_kind(0, {}).plain_causal);
}

TEST_F(RunOf, AlibiFollowsRealPositions) {
  config_.positions = PositionKind::alibi;
  config_.alibi_slopes = {0.5, 0.25, 0.125, 0.0625};
  hooked::Run run = make(mask_);
  const at::Tensor bias = run.sequence(Stack::blocks).layer_kind(0, {}).bias;
  ASSERT_EQ(bias.sizes(), (at::IntArrayRef{2, 4, 5, 5}));
  EXPECT_DOUBLE_EQ(bias[0][0][4][2].item<double>(), -0.5 * 2);
  EXPECT_DOUBLE_EQ(bias[1][1][3][0].item<double>(), -0.25 * 3);
  EXPECT_DOUBLE_EQ(bias[1][1][0][3].item<double>(), 0.0);
}

}  // namespace
}  // namespace hooked::run_test
