#include "hooked/analysis/logit_lens.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "tests/analysis/two_layer_model.h"
#include "tests/support/thrown_by.h"

namespace hooked::logit_lens_test {
namespace {

using testing::HasSubstr;

constexpr double kFloat64Tolerance = 1e-10;

TEST(LogitLens, LastRowIsWhatTheRunPredicted) {
  const auto model = random_model_of(two_layer_config());
  const auto tokens = random_row(6, 11, 1);
  const auto run = model.run_with_cache(tokens);
  const auto rows = logit_lens(model, run.cache, {.positions = {3}, .top_k = 4}).top;
  ASSERT_EQ(rows.size(), 3u);  // resid_pre(0) and two blocks
  EXPECT_EQ(rows[0].name.to_string(), "blocks.0.hook_resid_pre");
  EXPECT_EQ(rows[2].name.to_string(), "blocks.1.hook_resid_post");
  const auto logits = run.logits()[0][3];
  const auto order = logits.argsort(-1, true);
  ASSERT_EQ(rows[2].predictions.size(), 4u);
  for (std::int64_t k = 0; k < 4; ++k) {
    const auto& prediction = rows[2].predictions[static_cast<std::size_t>(k)];
    const auto token = order[k].item<std::int64_t>();
    EXPECT_EQ(prediction.token, token);
    EXPECT_EQ(prediction.piece, std::to_string(token));
    EXPECT_NEAR(prediction.logit, logits[token].item<double>(), kFloat64Tolerance);
    EXPECT_NEAR(prediction.probability, at::softmax(logits, -1)[token].item<double>(), kFloat64Tolerance);
  }
}

TEST(LogitLens, EarlierRowsAreTheRunsWithTheLaterBlocksSilenced) {
  const auto model = random_model_of(two_layer_config());
  const auto tokens = random_row(6, 11, 1);
  const auto rows = logit_lens(model, model.run_with_cache(tokens).cache, {.top_k = 1}).top;
  const auto silenced =
      model.run(tokens, {.edits = {zero(act::attn_out(1)), zero(act::mlp_out(1))}}).logits()[0][5];
  EXPECT_EQ(rows[1].predictions[0].token, silenced.argmax().item<std::int64_t>());
  EXPECT_NEAR(rows[1].predictions[0].logit, silenced.max().item<double>(), kFloat64Tolerance);
}

TEST(LogitLens, GridsHoldChosenTokensAtEveryRowAndPosition) {
  const auto model = random_model_of(two_layer_config());
  const auto run = model.run_with_cache(random_row(6, 11, 1).view({2, 3}));
  const auto lens = logit_lens(model, run.cache, {.positions = {}, .tokens = {7, 2}});
  ASSERT_EQ(lens.logits.values().sizes(), at::IntArrayRef({2, 2, 3, 3}));  // row, token, point, pos
  EXPECT_EQ(lens.logits.axis("token").labels, std::vector<std::string>({"7", "2"}));
  EXPECT_EQ(lens.logits.axis("point").labels,
            std::vector<std::string>({"resid_pre 0", "resid_post 0", "resid_post 1"}));
  EXPECT_EQ(lens.logits.axis("point").places[2], Address("blocks.1.hook_resid_post"));
  for (const std::int64_t token : {7, 2}) {
    const auto name = std::to_string(token);
    const auto at_end = lens.logits.slice("token", name).slice("point", -1).values();  // [row, pos]
    EXPECT_LT((at_end - run.logits().select(2, token)).abs().max().item<double>(), kFloat64Tolerance);
    const auto shares = lens.probabilities.slice("token", name).slice("point", -1).values();
    EXPECT_LT((shares - at::softmax(run.logits(), -1).select(2, token)).abs().max().item<double>(),
              kFloat64Tolerance);
  }
  EXPECT_EQ(lens.top.size(), 2u * 3 * 3);
  EXPECT_EQ(lens.top.back().row, 1);
  EXPECT_EQ(lens.top.back().column, 2);
  EXPECT_EQ(lens.top.back().predictions[0].token, run.logits()[1][2].argmax().item<std::int64_t>());
}

TEST(LogitLens, PaddingIsNotANumberAndNoPrediction) {
  const auto model = random_model_of(two_layer_config());
  const auto mask = at::tensor({1, 1, 1, 0, 0, 1}, at::kLong).view({2, 3});
  const auto run = model.run_with_cache({random_row(6, 11, 1).view({2, 3}), {.attention_mask = mask}});
  const auto lens = logit_lens(model, run.cache, {.positions = {}, .tokens = {4}});
  EXPECT_TRUE(lens.logits.values()[1][0][0].isnan().equal(mask[1].eq(0)));
  EXPECT_FALSE(lens.logits.values()[0].isnan().any().item<bool>());
  EXPECT_EQ(lens.top.size(), 3u * 4);
  const auto first = text_thrown_by<ShapeError>([&] { logit_lens(model, run.cache, {.positions = {0}}); });
  EXPECT_THAT(first, testing::AllOf(HasSubstr("[position 0]"), HasSubstr("padding in row 1")));
}

TEST(LogitLens, ReadsKeptPositions) {
  const auto model = random_model_of(two_layer_config());
  const auto tokens = random_row(6, 11, 1).view({2, 3});
  const auto last = model.run(tokens).logits().select(1, 2).argmax(1);  // [row]
  for (const AxisIndex& kept : {AxisIndex(2), AxisIndex(AxisIndex::Last{})}) {
    const auto cache = model.run_with_cache(tokens, act::defaults, {.keep = {.positions = kept}}).cache;
    for (const Position& position : {Position(2), Position(-1), Position::last()}) {
      const auto lens = logit_lens(model, cache, {.positions = {position}, .top_k = 1});
      EXPECT_EQ(lens.top[2].predictions[0].token, last[0].item<std::int64_t>());
      EXPECT_EQ(lens.top[5].predictions[0].token, last[1].item<std::int64_t>());
    }
    EXPECT_THAT(text_thrown_by<HookError>([&] { logit_lens(model, cache, {.positions = {1}}); }),
                HasSubstr("position 1 of row 0 was not kept"));
  }
}

TEST(LogitLens, CountsTheColumnsOfAPrefix) {
  const auto model = random_model_of(two_layer_config());
  const auto tokens = random_row(6, 11, 1);
  const auto whole = logit_lens(model, model.run_with_cache(tokens).cache, {.positions = {4}, .tokens = {3}});
  const auto prefix = model.run(tokens.narrow(1, 0, 2), {.keep_prefix = true}).prefix;
  const auto cache = model.run_with_cache({tokens.narrow(1, 2, 4), {.prefix = prefix}}).cache;
  const auto rest = logit_lens(model, cache, {.positions = {4}, .tokens = {3}});
  EXPECT_LT((whole.logits.values() - rest.logits.values()).abs().max().item<double>(), kFloat64Tolerance);
  EXPECT_EQ(logit_lens(model, cache, {.positions = {}, .tokens = {3}}).logits.axis("pos").labels,
            std::vector<std::string>({"2", "3", "4", "5"}));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { logit_lens(model, cache, {.positions = {1}}); }),
              HasSubstr("expected 2 to 5"));
}

TEST(LogitLens, SaysWhatIsMissing) {
  const auto model = random_model_of(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 1), act::resid_post).cache;
  EXPECT_THAT(text_thrown_by<HookError>([&] { logit_lens(model, cache); }),
              HasSubstr("blocks.0.hook_resid_pre"));
  EXPECT_THAT(text_thrown_by<HookError>([&] { logit_lens(model, cache, {.top_k = 0}); }),
              HasSubstr("top_k is 0"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { logit_lens(model, cache, {.tokens = {11}}); }),
              HasSubstr("token id 11"));
}

TEST(LogitLens, RefusesPostNorm) {
  auto config = two_layer_config();
  config.norm_place = NormPlace::post;
  config.final_norm = NormKind::none;
  const auto model = random_model_of(config);
  const auto cache = model.run_with_cache(random_row(6, 11, 1)).cache;
  EXPECT_THAT(text_thrown_by<HookError>([&] { logit_lens(model, cache); }), HasSubstr("norm_place post"));
}

TEST(LogitLens, PrintsAHeadingWhereThereAreSeveralPlaces) {
  const auto model = random_model_of(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 1)).cache;
  std::ostringstream one, two;
  one << logit_lens(model, cache, {.top_k = 1});
  two << logit_lens(model, cache, {.positions = {0, -1}, .top_k = 1});
  EXPECT_THAT(one.str(), testing::StartsWith("blocks.0.hook_resid_pre"));
  EXPECT_THAT(two.str(), testing::StartsWith("row 0, pos 0\nblocks.0.hook_resid_pre"));
  EXPECT_THAT(two.str(), testing::EndsWith(one.str()));
  EXPECT_THAT(two.str(), HasSubstr("\nrow 0, pos 5\n"));
}

TEST(LogitLens, RowsPrint) {
  std::ostringstream out;
  out << LogitLensRow{.name = ActivationName::parse("blocks.1.hook_resid_post"),
                      .row = 0,
                      .column = 0,
                      .predictions = {{.token = 5, .piece = "Mary", .logit = 3, .probability = 0.9712}}};
  EXPECT_EQ(out.str(), "blocks.1.hook_resid_post    Mary          97.1 %");
}

}  // namespace
}  // namespace hooked::logit_lens_test
