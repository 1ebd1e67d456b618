// A padded row equals the row alone, on either side, for every kind of positions.

#include "tests/support/tiny_model.h"

namespace hooked::padding_test {
namespace {

struct Padding {
  std::int64_t left;
  std::int64_t right;
};

/// The entries of real tokens of one row: along pos, or along query and key.
at::Tensor real_part(const at::Tensor& value, const ActivationName& name, const Padding& padding,
                     std::int64_t length) {
  at::Tensor real = value;
  const AxisList& axes = row(name.site).axes;
  for (std::size_t dim = 0; dim < axes.size(); ++dim) {
    if (axes[dim] == Axis::pos || axes[dim] == Axis::query || axes[dim] == Axis::key) {
      real = real.narrow(static_cast<std::int64_t>(dim), padding.left, length);
    }
  }
  return real;
}

void expect_padded_equals_alone(const ModelConfig& config) {
  const HookedTransformer model = random_model(config);
  constexpr std::int64_t kColumns = 7;
  const std::vector<Padding> paddings = {{3, 0}, {0, 2}, {1, 1}, {0, 0}, {6, 0}, {0, 6}};
  std::vector<at::Tensor> alone, rows, masks;
  for (const Padding& padding : paddings) {
    const std::int64_t length = kColumns - padding.left - padding.right;
    alone.push_back(random_tokens(config, {1, length}, 10 + static_cast<std::uint64_t>(length)));
    const auto fill = [](std::int64_t columns) { return at::zeros({1, columns}, at::kLong); };
    rows.push_back(at::cat({fill(padding.left), alone.back(), fill(padding.right)}, 1));
    masks.push_back(at::cat({fill(padding.left), at::ones({1, length}, at::kLong), fill(padding.right)}, 1));
  }
  const auto batch =
      model.run({at::cat(rows, 0), {.attention_mask = at::cat(masks, 0)}}, {.capture = act::everything});
  EXPECT_FALSE(batch.logits().isnan().any().item<bool>());
  for (std::size_t i = 0; i < paddings.size(); ++i) {
    const auto single = model.run_with_cache(alone[i], act::everything);
    const std::int64_t length = alone[i].size(1);
    const ActivationCache row = batch.cache.row(static_cast<std::int64_t>(i));
    for (const auto& entry : row) {
      EXPECT_LT(relative_difference(real_part(entry.value(), entry.name, paddings[i], length),
                                    single.cache[Address(entry.name)]),
                kDoubleTolerance)
          << entry.name.to_string() << " with " << paddings[i].left << " left, " << paddings[i].right
          << " right";
    }
    EXPECT_LT(
        relative_difference(
            batch.logits().narrow(0, static_cast<std::int64_t>(i), 1).narrow(1, paddings[i].left, length),
            single.logits()),
        kDoubleTolerance);
  }
}

class PaddedRows : public testing::TestWithParam<Positions> {};

std::string position_word(const testing::TestParamInfo<Positions>& info) {
  constexpr const char* kWords[] = {"none", "learned", "shortformer", "rotary", "alibi"};
  return kWords[info.param.index()];
}

INSTANTIATE_TEST_SUITE_P(PositionKinds, PaddedRows,
                         testing::Values(NoPositions{}, LearnedPositions{}, ShortformerPositions{},
                                         RotaryPositions{}, AlibiPositions{}),
                         position_word);

TEST_P(PaddedRows, EqualTheRowsAlone) {
  for (const AttentionDirection direction : {AttentionDirection::causal, AttentionDirection::bidirectional}) {
    ModelConfig config = small_config();
    config.positions = GetParam();
    config.direction = direction;
    if (config.alibi() != nullptr) config.alibi()->slopes = geometric_alibi_slopes(config.n_heads);
    expect_padded_equals_alone(config);
  }
}

TEST(PaddedRowsOfRandomModels, EqualTheRowsAlone) { for_random_configs(60, expect_padded_equals_alone); }

// Long enough that the fused kernel takes queries in pieces, because the whole mask is too large.
TEST(PaddedRow, LongOnesEqualTheRowAlone) {
  ModelConfig config = small_config();
  config.n_ctx = 512;
  const HookedTransformer model = random_model(config);
  const at::Tensor tokens = random_tokens(config, {2, 400});
  at::Tensor mask = at::ones({2, 400}, at::kLong);
  mask[1].narrow(0, 0, 60).zero_();
  const at::Tensor batch = model.run({tokens, {.attention_mask = mask}}).logits();
  EXPECT_LT(relative_difference(batch.slice(0, 0, 1), model.run(tokens.slice(0, 0, 1)).logits()),
            kDoubleTolerance);
  EXPECT_LT(relative_difference(batch.slice(0, 1).slice(1, 60),
                                model.run(tokens.slice(0, 1).slice(1, 60)).logits()),
            kDoubleTolerance);
}

TEST(PaddedRow, WhatStandsInThePaddingDoesNotMatter) {
  const HookedTransformer model = random_model();
  at::Tensor tokens = random_tokens(model.config(), {1, 6}), mask = at::ones({1, 6}, at::kLong);
  mask[0].narrow(0, 0, 2).zero_();
  const at::Tensor one = model.run({tokens, {.attention_mask = mask}}).logits();
  at::Tensor other = tokens.clone();
  other[0].narrow(0, 0, 2).fill_(9);
  EXPECT_TRUE(
      at::equal(model.run({other, {.attention_mask = mask}}).logits().narrow(1, 2, 4), one.narrow(1, 2, 4)));
}

TEST(Batch, EqualsItsRows) {
  for_random_configs(40, [](const ModelConfig& config) {
    const HookedTransformer model = random_model(config);
    const at::Tensor tokens = random_tokens(config, {3, 6});
    const at::Tensor batch = model(tokens);
    for (int i = 0; i < 3; ++i) {
      EXPECT_LT(relative_difference(model(tokens[i]), batch.narrow(0, i, 1)), kDoubleTolerance);
    }
  });
}

// Edits of scores and patterns never make padding attended to: a row equals the row alone.
TEST(Edits, OfScoresAndPatternsLeavePaddingOut) {
  for (const bool left : {true, false}) {
    const HookedTransformer model = random_model();
    const at::Tensor tokens = random_tokens(model.config(), {2, 6});
    at::Tensor mask = at::ones({2, 6}, at::kLong);
    mask[0].narrow(0, left ? 0 : 4, 2).zero_();
    const Hook hook(act::pattern, [](const at::Tensor& pattern) { return pattern + 0.25; });
    for (const RunOptions& options :
         {RunOptions{.edits = {set(EditTarget(act::attn_scores(1)), 0.5)}},
          RunOptions{.edits = {add(EditTarget(act::pattern), -0.5)}}, RunOptions{.hooks = {hook}}}) {
      const auto batch = model.run({tokens, {.attention_mask = mask}}, options).logits();
      const auto alone = model.run(tokens.narrow(0, 0, 1).narrow(1, left ? 2 : 0, 4), options).logits();
      EXPECT_LT(relative_difference(batch.narrow(0, 0, 1).narrow(1, left ? 2 : 0, 4), alone),
                kFloatTolerance);
    }
  }
}

TEST(Edits, LastFollowsThePadding) {
  const HookedTransformer model = random_model();
  const at::Tensor tokens = random_tokens(model.config(), {2, 6});
  at::Tensor mask = at::ones({2, 6}, at::kLong);
  mask[0].narrow(0, 4, 2).zero_();
  const auto run =
      model.run({tokens, {.attention_mask = mask}},
                {.edits = {zero(act::resid_pre(1).pos(AxisIndex::Last{}))}, .capture = act::resid_pre(1)});
  const at::Tensor resid = run.cache[act::resid_pre(1)];
  EXPECT_EQ(resid[0][3].abs().max().item<double>(), 0.0);
  EXPECT_EQ(resid[1][5].abs().max().item<double>(), 0.0);
  EXPECT_GT(resid[0][5].abs().max().item<double>(), 0.0);
  EXPECT_GT(resid[1][3].abs().max().item<double>(), 0.0);
}

}  // namespace
}  // namespace hooked::padding_test
