#include "hooked/analysis/logit_lens.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/softmax.h>
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
  const auto rows = logit_lens(model, run.cache, {.position = 3, .top_k = 4});
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
  const auto rows = logit_lens(model, model.run_with_cache(tokens).cache, {.top_k = 1});
  const auto silenced =
      model.run(tokens, {.edits = {zero(act::attn_out(1)), zero(act::mlp_out(1))}}).logits()[0][5];
  EXPECT_EQ(rows[1].predictions[0].token, silenced.argmax().item<std::int64_t>());
  EXPECT_NEAR(rows[1].predictions[0].logit, silenced.max().item<double>(), kFloat64Tolerance);
}

TEST(LogitLens, ReadsOneRowOfABatchAndKeptPositions) {
  const auto model = random_model_of(two_layer_config());
  const auto tokens = random_row(6, 11, 1).view({2, 3});
  const auto rows =
      logit_lens(model, model.run_with_cache(tokens).cache, {.position = 2, .top_k = 1, .row = 1});
  const auto last = model.run(tokens).logits()[1][2];
  EXPECT_EQ(rows.back().predictions[0].token, last.argmax().item<std::int64_t>());

  const auto kept = model.run_with_cache(tokens, act::defaults, {.keep = {.positions = AxisIndex(2)}}).cache;
  EXPECT_EQ(logit_lens(model, kept, {.position = 2, .top_k = 1, .row = 1}).back().predictions[0].token,
            rows.back().predictions[0].token);
  EXPECT_THAT(text_thrown_by<HookError>([&] { logit_lens(model, kept, {.position = 1}); }),
              HasSubstr("position 1 was not kept"));
}

TEST(LogitLens, SaysWhatIsMissing) {
  const auto model = random_model_of(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 1), act::resid_post).cache;
  EXPECT_THAT(text_thrown_by<HookError>([&] { logit_lens(model, cache); }),
              HasSubstr("blocks.0.hook_resid_pre"));
  EXPECT_THAT(text_thrown_by<HookError>([&] { logit_lens(model, cache, {.top_k = 0}); }),
              HasSubstr("top_k is 0"));
}

TEST(LogitLens, RefusesPostNorm) {
  auto config = two_layer_config();
  config.norm_place = NormPlace::post;
  config.final_norm = NormKind::none;
  const auto model = random_model_of(config);
  const auto cache = model.run_with_cache(random_row(6, 11, 1)).cache;
  EXPECT_THAT(text_thrown_by<HookError>([&] { logit_lens(model, cache); }), HasSubstr("norm_place post"));
}

TEST(LogitLens, RowsPrint) {
  std::ostringstream out;
  out << LogitLensRow{.name = ActivationName::parse("blocks.1.hook_resid_post"),
                      .predictions = {{.token = 5, .piece = "Mary", .logit = 3, .probability = 0.9712}}};
  EXPECT_EQ(out.str(), "blocks.1.hook_resid_post    Mary          97.1 %");
}

}  // namespace
}  // namespace hooked::logit_lens_test
