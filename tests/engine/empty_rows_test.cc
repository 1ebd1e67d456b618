// A query whose keys are all removed attends to nothing, whether by a mask, a hook or an edit.
#include <ATen/ops/full_like.h>
#include <fmt/format.h>

#include "tests/support/tiny_model.h"

namespace hooked::empty_rows_test {
namespace {

constexpr std::int64_t kQuery = 2;

std::string scores_of(const ModelConfig& config) {
  return fmt::format("{}.*.attn.hook_attn_scores", stack_name(config.main_stack()));
}

RunOptions knocked_out(const ModelConfig& config) {
  return {.edits = {set(fmt::format("{}[query={}]", scores_of(config), kQuery), -INFINITY)}};
}

bool finite(const at::Tensor& values) { return values.isfinite().all().item<bool>(); }

class Knockout : public testing::Test {
 protected:
  /// Calls `check` with models of many configs, in float64.
  static void for_many_models(const std::function<void(const HookedTransformer&)>& check) {
    for_random_configs(
        60, [](const ModelConfig& c) { return c.attends(0); },
        [&](const ModelConfig& c) { check(random_model(c)); });
  }
};

TEST_F(Knockout, LeavesThePatternZero) {
  for_many_models([](const HookedTransformer& model) {
    const at::Tensor tokens = random_tokens(model.config(), {1, 5});
    RunOptions options = knocked_out(model.config());
    options.capture = act::everything;
    const auto run = model.run(tokens, options);
    EXPECT_TRUE(finite(run.logits()));
    std::int64_t patterns = 0;
    for (const auto& entry : run.cache) {
      if (entry.name.site != Site::pattern || entry.name.stack != model.config().main_stack()) continue;
      ++patterns;
      EXPECT_TRUE((entry.value().select(2, kQuery) == 0).all().item<bool>()) << entry.name.to_string();
      EXPECT_FALSE((entry.value().select(2, kQuery + 1) == 0).all().item<bool>()) << entry.name.to_string();
    }
    EXPECT_GT(patterns, 0);
  });
}

TEST_F(Knockout, IsTheSameByAHook) {
  for_many_models([](const HookedTransformer& model) {
    const at::Tensor tokens = random_tokens(model.config(), {2, 5});
    const auto hooked =
        model.run_with_hooks(tokens, {{scores_of(model.config()), [](const at::Tensor& scores) {
                                         const at::Tensor changed = scores.clone();
                                         changed.select(2, kQuery).fill_(-INFINITY);
                                         return changed;
                                       }}});
    EXPECT_LT(relative_difference(hooked.logits(), model.run(tokens, knocked_out(model.config())).logits()),
              kDoubleTolerance);
  });
}

// The neighbour's padding decides nothing.
TEST_F(Knockout, IsTheSameBesideAPaddedRow) {
  for_many_models([](const HookedTransformer& model) {
    const at::Tensor tokens = random_tokens(model.config(), {2, 5});
    at::Tensor mask = at::ones({2, 5}, at::kLong);
    mask[1].narrow(0, 0, 2).zero_();
    const RunOptions options = knocked_out(model.config());
    const at::Tensor beside = model.run({tokens, {.attention_mask = mask}}, options).logits();
    EXPECT_LT(
        relative_difference(beside.narrow(0, 0, 1), model.run(tokens.narrow(0, 0, 1), options).logits()),
        kDoubleTolerance);
  });
}

// Whatever a hook or an edit makes of scores and patterns, nobody attends to padding, and the cache says so.
TEST_F(Knockout, LeavesPaddingMasked) {
  for_many_models([](const HookedTransformer& model) {
    const at::Tensor tokens = random_tokens(model.config(), {2, 5});
    at::Tensor mask = at::ones({2, 5}, at::kLong);
    mask[1].narrow(0, 0, 2).zero_();
    const std::string scores = scores_of(model.config()),
                      patterns =
                          fmt::format("{}.*.attn.hook_pattern", stack_name(model.config().main_stack()));
    const auto cache =
        model
            .run({tokens, {.attention_mask = mask}},
                 {.hooks = {Hook(scores, [](const at::Tensor& x) { return at::full_like(x, 0.5); })},
                  .edits = {set(patterns, 0.25)},
                  .capture = Selection(scores) | Selection(patterns)})
            .cache;
    for (const auto& entry : cache) {
      const at::Tensor of_padding = entry.value()[1].narrow(2, 0, 2),
                       others = entry.value()[1].narrow(2, 2, 3);
      const bool pattern = entry.name.site == Site::pattern;
      EXPECT_TRUE((of_padding == (pattern ? 0.0 : -INFINITY)).all().item<bool>()) << entry.name.to_string();
      EXPECT_TRUE((others == (pattern ? 0.25 : 0.5)).all().item<bool>()) << entry.name.to_string();
    }
  });
}

TEST_F(Knockout, HasGradientsOfZero) {
  for_many_models([](const HookedTransformer& model) {
    const at::Tensor tokens = random_tokens(model.config(), {2, 5});
    RunOptions options = knocked_out(model.config());
    options.gradients =
        GradientRequest{act::everything, [](const at::Tensor& logits) { return logits.sum(); }};
    for (const auto& entry : model.run(tokens, options).gradients) {
      EXPECT_TRUE(finite(entry.value())) << entry.name.to_string();
      if (entry.name.site != Site::attn_scores || entry.name.stack != model.config().main_stack()) continue;
      EXPECT_TRUE((entry.value().select(2, kQuery) == 0).all().item<bool>()) << entry.name.to_string();
    }
  });
}

}  // namespace
}  // namespace hooked::empty_rows_test
