#include "hooked/engine/prefix.h"

#include "hooked/engine/continuation.h"
#include "tests/engine/continued_runs.h"

namespace hooked::prefix_test {
namespace {

TEST(Prefix, ARunFromItIsTheEndOfTheWholeRunInEveryConfiguration) {
  const int tried = for_random_configs(120, can_continue, [](const ModelConfig& config) {
    const HookedTransformer model = random_model(config);
    const at::Tensor tokens = random_tokens(config, {2, 7});
    const RunResult whole = model.run_with_cache(tokens, act::everything);
    const Prefix prefix = prefix_of(model, tokens.narrow(1, 0, 4));
    EXPECT_EQ(prefix.length(), 4);
    // All points and none: explicit and fused attention.
    for (const Selection& capture : {Selection(act::everything), Selection()}) {
      const RunResult rest = model.run({tokens.narrow(1, 4, 3), {.prefix = prefix}}, {.capture = capture});
      expect_end_of(whole, rest, 1e-10);
      for (const auto& entry : rest.cache) {
        if (!axis_on(entry.name.site, Axis::pos)) continue;
        EXPECT_EQ(entry.positions, (std::vector<std::int64_t>{4, 5, 6}));
      }
    }
  });
  EXPECT_GT(tried, 40);
}

class SmallPrefix : public testing::Test {
 protected:
  ModelConfig config_ = small_config();
  HookedTransformer model_ = random_model(config_);
  at::Tensor shared_ = random_tokens(config_, {1, 4});
  at::Tensor rows_ = random_tokens(config_, {3, 3}, 8);
  at::Tensor whole_ = at::cat({shared_.expand({3, 4}), rows_}, 1);
  Prefix prefix_ = prefix_of(model_, shared_);
};

TEST_F(SmallPrefix, OfOneRowServesMany) {
  EXPECT_EQ(prefix_.batch(), 1);
  const at::Tensor expected = model_(whole_).narrow(1, 4, 3);
  EXPECT_LT(relative_difference(model_.run({rows_, {.prefix = prefix_}}).logits(), expected), 1e-10);
  EXPECT_LT(relative_difference(
                model_.run({rows_, {.prefix = prefix_}}, {.capture = act::pattern(0)}).logits(), expected),
            1e-10);
}

TEST_F(SmallPrefix, OfOneRowServesManyWithGroupedQueries) {
  config_.n_kv_heads = 2;
  const HookedTransformer model = random_model(config_);
  const Prefix prefix = prefix_of(model, shared_);
  EXPECT_LT(
      relative_difference(model.run({rows_, {.prefix = prefix}}).logits(), model(whole_).narrow(1, 4, 3)),
      1e-10);
}

TEST_F(SmallPrefix, IsNeverChanged) {
  const at::Tensor once = model_.run({rows_, {.prefix = prefix_}}).logits();
  model_.run({rows_, {.prefix = prefix_}}, {.edits = {add(act::k(0), 5.0)}});
  model_.generate({rows_, {.prefix = prefix_}}, {.max_new_tokens = 2});
  EXPECT_TRUE(at::equal(model_.run({rows_, {.prefix = prefix_}}).logits(), once));
  EXPECT_EQ(prefix_.length(), 4);
}

TEST_F(SmallPrefix, CanBeContinued) {
  const Prefix longer = prefix_of(model_, {rows_.narrow(1, 0, 2), {.prefix = prefix_}});
  EXPECT_EQ(longer.length(), 6);
  EXPECT_EQ(longer.batch(), 3);
  EXPECT_LT(relative_difference(model_.run({rows_.narrow(1, 2, 1), {.prefix = longer}}).logits(),
                                model_(whole_).narrow(1, 6, 1)),
            1e-10);
}

TEST_F(SmallPrefix, KeepsItsPadding) {
  const at::Tensor mask = at::tensor({0, 1, 1, 1}, at::kLong).unsqueeze(0);
  const Prefix padded = prefix_of(model_, {shared_, {.attention_mask = mask}});
  const at::Tensor alone = at::cat({shared_.narrow(1, 1, 3).expand({3, 3}), rows_}, 1);
  EXPECT_LT(
      relative_difference(model_.run({rows_, {.prefix = padded}}).logits(), model_(alone).narrow(1, 3, 3)),
      1e-10);
}

TEST_F(SmallPrefix, EditsThatMadeItPersist) {
  const Edit steering = add(act::resid_pre(0), 1.0);
  const Prefix steered = prefix_of(model_, shared_, {.edits = {steering}});
  const Edit same = add(act::resid_pre(0).pos(AxisIndex::Range{.begin = 0, .end = 4}), 1.0);
  EXPECT_LT(relative_difference(model_.run({rows_, {.prefix = steered}}).logits(),
                                model_.run(whole_, {.edits = {same}}).logits().narrow(1, 4, 3)),
            1e-10);
}

TEST_F(SmallPrefix, PositionsAreAbsolute) {
  const Edit edit = zero(act::resid_post(0).pos(5));
  const RunResult result = model_.run({rows_, {.prefix = prefix_}},
                                      {.edits = {edit}, .logit_positions = std::vector<std::int64_t>{6, -2}});
  const at::Tensor expected = model_.run(whole_, {.edits = {edit}}).logits();
  EXPECT_LT(relative_difference(result.logits().select(1, 0), expected.select(1, 6)), 1e-10);
  EXPECT_LT(relative_difference(result.logits().select(1, 1), expected.select(1, 5)), 1e-10);
  EXPECT_THROW(model_.run({rows_, {.prefix = prefix_}}, {.edits = {zero(act::resid_post(0).pos(1))}}),
               HookError);
  EXPECT_THROW(model_.run({rows_, {.prefix = prefix_}}, {.logit_positions = std::vector<std::int64_t>{1}}),
               ShapeError);
}

TEST_F(SmallPrefix, GenerationGoesOnFromIt) {
  EXPECT_TRUE(at::equal(model_.generate({rows_, {.prefix = prefix_}}, greedy(3)).tokens,
                        model_.generate(whole_, greedy(3)).tokens.narrow(1, 4, 6)));
}

TEST_F(SmallPrefix, LogProbabilitiesOfAContinuationAreThoseOfTheWholeRun) {
  const at::Tensor whole = continuation_log_probs(model_, whole_.narrow(1, 0, 5), whole_.narrow(1, 5, 2));
  const at::Tensor expected =
      -model_.run(whole_, {.output = Output::loss, .loss = {.reduction = LossReduction::per_token}})
           .loss()
           .narrow(1, 4, 2);
  EXPECT_LT(relative_difference(whole, expected), kDoubleTolerance);
  const at::Tensor from =
      continuation_log_probs(model_, {rows_.narrow(1, 0, 1), {.prefix = prefix_}}, rows_.narrow(1, 1, 2));
  EXPECT_LT(relative_difference(from, expected), 1e-10);
  const at::Tensor mask = at::tensor({0, 1}, at::kLong).unsqueeze(0);
  const at::Tensor padded =
      continuation_log_probs(model_, {rows_.narrow(0, 0, 1).narrow(1, 0, 2), {.attention_mask = mask}},
                             rows_.narrow(0, 0, 1).narrow(1, 2, 1));
  const at::Tensor alone = continuation_log_probs(model_, rows_.narrow(0, 0, 1).narrow(1, 1, 1),
                                                  rows_.narrow(0, 0, 1).narrow(1, 2, 1));
  EXPECT_LT(relative_difference(padded, alone), kDoubleTolerance);
}

TEST_F(SmallPrefix, RefusesWhatDoesNotFit) {
  const HookedTransformer other = random_model();
  EXPECT_THROW(other.run({rows_, {.prefix = prefix_}}), ShapeError) << "another model";
  const Prefix two = prefix_of(model_, shared_.expand({2, 4}));
  EXPECT_THROW(model_.run({rows_, {.prefix = two}}), ShapeError) << "2 rows for 3";
  EXPECT_THROW(model_.run({random_tokens(config_, {1, 7}), {.prefix = prefix_}}), ShapeError)
      << "beyond the context";
  EXPECT_THROW(model_.run(shared_, {.stop_at_layer = 1, .keep_prefix = true}), HookError);
  ModelConfig config = small_config();
  config.direction = AttentionDirection::bidirectional;
  const HookedTransformer encoder = random_model(config);
  EXPECT_THROW(encoder.run({rows_, {.prefix = prefix_of(encoder, shared_)}}), ShapeError);
  EXPECT_THROW(continuation_log_probs(model_, shared_, rows_), ShapeError) << "1 row and 3";
}

TEST_F(SmallPrefix, OfKeysThatTurnWithTheLengthHoldsUpToThatLength) {
  config_.positions = RotaryPositions{};
  config_.rotary()->scaling = DynamicScaling{.factor = 2.0, .original_n_ctx = 6.0};
  const HookedTransformer model = random_model(config_);
  const Prefix prefix = prefix_of(model, shared_);
  const at::Tensor two = rows_.narrow(1, 0, 2);
  EXPECT_LT(relative_difference(model.run({two, {.prefix = prefix}}).logits(),
                                model(whole_.narrow(1, 0, 6)).narrow(1, 4, 2)),
            1e-10);
  EXPECT_THROW(model.run({rows_, {.prefix = prefix}}), ShapeError);
  EXPECT_THROW(model.generate({two, {.prefix = prefix}}, {.max_new_tokens = 1}), ShapeError);
}

}  // namespace
}  // namespace hooked::prefix_test
