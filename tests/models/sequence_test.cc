#include "models/sequence/sequence.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "core/id_list.h"
#include "tests/models/random_graph.h"

namespace hooked::sequence_test {
namespace {

using Keys = std::vector<std::int64_t>;

class SequenceOf : public testing::Test {
 protected:
  Sequence make(const at::Tensor& mask = {}) const {
    return {config_, Stack::blocks, {2, 5, mask, at::kCPU}};
  }
  /// The kind of layer `l`.
  LayerKind kind(const Sequence& sequence, std::int64_t l = 0) const {
    return sequence.layer_kind(config_.windowed(l));
  }
  /// The keys that a query of a row sees in layer `l`.
  Keys seen(const Sequence& sequence, std::int64_t row, std::int64_t query, std::int64_t l = 0) const {
    return id_list(kind(sequence, l).mask.blocked()[row][0][query].logical_not().nonzero().flatten());
  }
  /// Row 0 begins with two paddings, row 1 ends with one.
  at::Tensor mask_ = at::tensor({0, 0, 1, 1, 1, 1, 1, 1, 1, 0}, at::kLong).view({2, 5});
  ModelConfig config_ = graph_config();
};

TEST_F(SequenceOf, PositionsCountRealTokens) {
  EXPECT_TRUE(at::equal(make().positions(), at::tensor({0, 1, 2, 3, 4}, at::kLong).unsqueeze(0)));
  EXPECT_TRUE(
      at::equal(make(mask_).positions(), at::tensor({0, 0, 0, 1, 2, 0, 1, 2, 3, 3}, at::kLong).view({2, 5})));
}

TEST_F(SequenceOf, PlainCausalMaskIsRecognised) {
  const Sequence run = make();
  EXPECT_TRUE(kind(run).plain_causal);
  const Sequence padded = make(mask_);
  const LayerKind kind = this->kind(padded);
  EXPECT_FALSE(kind.plain_causal);
  ASSERT_EQ(kind.mask.blocked().sizes(), (at::IntArrayRef{2, 1, 5, 5}));
  EXPECT_EQ(seen(padded, 0, 4), (Keys{2, 3, 4}));
  EXPECT_EQ(seen(padded, 1, 2), (Keys{0, 1, 2}));
}

TEST_F(SequenceOf, WindowAsLongAsTheInputIsNoWindow) {
  config_.window = Window{.size = 5, .layers = {true, true}};
  const Sequence run = make();
  EXPECT_TRUE(kind(run).plain_causal);
}

TEST_F(SequenceOf, WindowCountsItsOwnPosition) {
  config_.window = Window{.size = 2, .layers = {true, false}};
  const Sequence run = make();
  EXPECT_EQ(seen(run, 0, 3), (Keys{2, 3}));
  EXPECT_TRUE(kind(run, 1).plain_causal);
}

TEST_F(SequenceOf, ChunksBeginWithTheFirstToken) {
  config_.window = Window{.kind = Window::chunks, .size = 2, .layers = {true, false}};
  const Sequence run = make();
  EXPECT_EQ(seen(run, 0, 3), (Keys{2, 3}));
  EXPECT_EQ(seen(run, 0, 4), (Keys{4}));
  EXPECT_TRUE(kind(run, 1).plain_causal);
  // Row 0's tokens begin at column 2.
  const Sequence padded = make(mask_);
  EXPECT_EQ(seen(padded, 0, 3), (Keys{2, 3}));
  EXPECT_EQ(seen(padded, 0, 4), (Keys{4}));
  EXPECT_EQ(seen(padded, 1, 2), (Keys{2}));
  EXPECT_EQ(seen(padded, 1, 3), (Keys{2, 3}));
}

TEST_F(SequenceOf, ChunksAreSeenWholeInBothDirections) {
  config_.direction = AttentionDirection::bidirectional;
  config_.window = Window{.kind = Window::chunks, .size = 2, .layers = {true, false}};
  const Sequence run = make();
  EXPECT_EQ(seen(run, 0, 2), (Keys{2, 3}));
}

class SequenceOfWindows : public SequenceOf, public testing::WithParamInterface<Window::Kind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, SequenceOfWindows, testing::Values(Window::sliding, Window::chunks),
                         [](const auto& info) {
                           return info.param == Window::sliding ? "Sliding" : "Chunks";
                         });

TEST_P(SequenceOfWindows, ColumnsAfterCachedOnesAreTheEndOfTheWhole) {
  config_.window = Window{.kind = GetParam(), .size = 3, .layers = {true, false}};
  config_.positions = AlibiPositions{.slopes = {0.5, 0.25, 0.125, 0.0625}};
  for (const at::Tensor& mask : {at::Tensor(), mask_}) {
    const Sequence whole = make(mask);
    KvCache cached(config_.n_layers, {.batch = 2, .capacity = 5});
    const auto columns = [&](std::int64_t begin, std::int64_t length) {
      return mask.defined() ? mask.narrow(1, begin, length).to(at::kBool) : at::Tensor();
    };
    cached.advance(3, columns(0, 3));
    const Sequence rest(
        config_, Stack::blocks,
        {.batch = 2, .length = 2, .attention_mask = columns(3, 2), .device = at::kCPU, .cache = &cached});
    EXPECT_EQ(rest.past(), 3);
    EXPECT_TRUE(at::equal(rest.positions(), whole.positions().narrow(1, 3, 2)));
    for (const std::int64_t layer : {0, 1}) {
      const LayerKind here = kind(rest, layer), full = kind(whole, layer);
      EXPECT_TRUE(at::equal(here.mask.blocked(), full.mask.blocked().narrow(2, 3, 2)));
      EXPECT_TRUE(at::equal(here.mask.bias(), full.mask.bias().narrow(2, 3, 2)));
      EXPECT_FALSE(here.plain_causal);
    }
  }
}

TEST_F(SequenceOf, TheNewestColumnAloneIsBlockedFromNothing) {
  KvCache cached(config_.n_layers, {.batch = 2, .capacity = 5});
  cached.advance(4, {});
  const Sequence newest(
      config_, Stack::blocks,
      {.batch = 2, .length = 1, .attention_mask = {}, .device = at::kCPU, .cache = &cached});
  EXPECT_FALSE(kind(newest).mask.blocked().defined());
  EXPECT_FALSE(kind(newest).plain_causal);
}

TEST_P(SequenceOfWindows, AColumnThatTheDeviceKnowsIsThatOfTheWhole) {
  config_.window = Window{.kind = GetParam(), .size = 3, .layers = {true, false}};
  config_.positions = AlibiPositions{.slopes = {0.5, 0.25, 0.125, 0.0625}};
  for (const at::Tensor& mask : {at::Tensor(), mask_}) {
    const Sequence whole = make(mask);
    for (const std::int64_t column : {0, 2, 4}) {
      SCOPED_TRACE(column);
      KvCache room(config_.n_layers, {.batch = 2, .capacity = 8});
      const auto columns = [&](std::int64_t begin, std::int64_t length) {
        return mask.defined() ? mask.narrow(1, begin, length).to(at::kBool) : at::Tensor();
      };
      room.advance(column, columns(0, column));
      room.mark(1, columns(column, 1));
      const Sequence step(config_, Stack::blocks,
                          {.batch = 2,
                           .length = 1,
                           .attention_mask = {},
                           .device = at::kCPU,
                           .cache = &room,
                           .column = at::tensor({column}, at::kLong)});
      EXPECT_TRUE(at::equal(step.positions(), whole.positions().narrow(1, column, 1)));
      for (const std::int64_t layer : {0, 1}) {
        const LayerKind here = kind(step, layer), full = kind(whole, layer);
        const std::int64_t seen = column + 1;
        const auto of_column = [&](const at::Tensor& x) { return x.narrow(2, column, 1).narrow(3, 0, seen); };
        EXPECT_TRUE(at::equal(here.mask.blocked().narrow(3, 0, seen), of_column(full.mask.blocked())));
        // Padding is at any distance.
        at::Tensor any = of_column(full.mask.blocked());
        if (mask.defined()) any = any.logical_or(columns(column, 1).logical_not().view({2, 1, 1, 1}));
        const auto counted = [&](const at::Tensor& bias) { return bias.masked_fill(any, 0.0); };
        EXPECT_TRUE(
            at::equal(counted(here.mask.bias().narrow(3, 0, seen)), counted(of_column(full.mask.bias()))));
        EXPECT_TRUE(here.mask.blocked().narrow(3, seen, 8 - seen).all().item<bool>());
        EXPECT_FALSE(here.plain_causal);
      }
    }
  }
}

TEST_F(SequenceOf, PaddingBetweenTokensDoesNotCutChunks) {
  config_.window = Window{.kind = Window::chunks, .size = 3, .layers = {true, true}};
  const at::Tensor mask = at::tensor({1, 1, 0, 0, 1}, at::kLong).unsqueeze(0).expand({2, 5});
  const Sequence run = make(mask);
  EXPECT_EQ(seen(run, 0, 4), (Keys{0, 1, 4}));
}

TEST_F(SequenceOf, PaddingBetweenTokensDoesNotMoveThemOutOfTheWindow) {
  config_.window = Window{.size = 2, .layers = {true, true}};
  const at::Tensor mask = at::tensor({1, 1, 0, 0, 1}, at::kLong).unsqueeze(0).expand({2, 5});
  const Sequence run = make(mask);
  EXPECT_EQ(seen(run, 0, 4), (Keys{1, 4})) << "the token before it";
}

TEST_F(SequenceOf, BidirectionalLayersBlockNothing) {
  config_.direction = AttentionDirection::bidirectional;
  const Sequence run = make();
  EXPECT_FALSE(kind(run).mask.blocked().defined());
  EXPECT_FALSE(kind(run).plain_causal);
}

TEST_F(SequenceOf, AlibiFollowsRealPositions) {
  config_.positions = AlibiPositions{.slopes = {0.5, 0.25, 0.125, 0.0625}};
  const Sequence run = make(mask_);
  const at::Tensor bias = kind(run).mask.bias();
  ASSERT_EQ(bias.sizes(), (at::IntArrayRef{2, 4, 5, 5}));
  EXPECT_DOUBLE_EQ(bias[0][0][4][2].item<double>(), -0.5 * 2);
  EXPECT_DOUBLE_EQ(bias[1][1][3][0].item<double>(), -0.25 * 3);
  EXPECT_DOUBLE_EQ(bias[1][1][0][3].item<double>(), 0.0);
}

}  // namespace
}  // namespace hooked::sequence_test
