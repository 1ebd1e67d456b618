// What hooks of a run may do, and that nothing of them remains.
#include <ATen/ops/full_like.h>

#include <memory>
#include <stdexcept>

#include "tests/support/tiny_model.h"

namespace hooked::run_hooks_test {
namespace {

class RunHooks : public testing::Test {
 protected:
  HookedTransformer model_ = random_model();
  at::Tensor tokens_ = random_tokens(model_.config(), {2, 6});
  at::Tensor plain_ = model_(tokens_);
};

TEST_F(RunHooks, ObserversAndNoOpHooksLeaveTheBitsAtPointsOffThePlan) {
  for (const ActivationName& name : model_.names()) {
    const std::string text = name.to_string();
    const auto observed = model_.run_with_hooks(tokens_, {{name, [](const at::Tensor&) {}}}).logits();
    const auto unchanged =
        model_.run_with_hooks(tokens_, {{name, [](const at::Tensor& x) { return x; }}}).logits();
    const auto captured = model_.run_with_cache(tokens_, name).logits();
    if (row(name.site).changes_plan || row(name.site).wide) {
      EXPECT_LT(relative_difference(observed, plain_), kDoubleTolerance) << text;
      EXPECT_LT(relative_difference(unchanged, plain_), kDoubleTolerance) << text;
      // Activations that are only captured are computed later.
      EXPECT_TRUE(at::equal(captured, plain_)) << text;
    } else {
      EXPECT_TRUE(at::equal(observed, plain_)) << text;
      EXPECT_TRUE(at::equal(unchanged, plain_)) << text;
      EXPECT_TRUE(at::equal(captured, plain_)) << text;
    }
  }
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
}

TEST(RunHooksOfRandomModels, ObserversLeaveTheBitsOrStayWithinRounding) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    ModelConfig config = random_config(seed);
    config.dtype = seed % 2 == 0 ? at::kDouble : at::kFloat;
    const HookedTransformer model = random_model(config);
    const at::Tensor tokens = random_tokens(config, {2, 5});
    const at::Tensor plain = model(tokens);
    const auto off_plan = Selection::matching(
        [](const ActivationName& name) { return !row(name.site).changes_plan && !row(name.site).wide; });
    EXPECT_TRUE(
        at::equal(model.run_with_hooks(tokens, {{off_plan, [](const at::Tensor&) {}}}).logits(), plain));
    EXPECT_TRUE(at::equal(
        model.run_with_hooks(tokens, {{off_plan, [](const at::Tensor& x) { return x; }}}).logits(), plain));
    const double tolerance = config.dtype == at::kDouble ? kDoubleTolerance : kFloatTolerance;
    EXPECT_LT(
        relative_difference(
            model.run_with_hooks(tokens, {{act::everything, [](const at::Tensor& x) { return x; }}}).logits(),
            plain),
        tolerance);
    EXPECT_TRUE(at::equal(model(tokens), plain));
  }
}

TEST_F(RunHooks, EditingHookChangesWhatFollows) {
  const auto run =
      model_.run_with_hooks(tokens_, {{act::resid_pre(1), [](const at::Tensor& x) { return x * 0.5; }}},
                            {.capture = act::defaults});
  const auto plain = model_.run_with_cache(tokens_);
  EXPECT_TRUE(at::equal(run.cache[act::resid_pre(1)], plain.cache[act::resid_pre(1)] * 0.5));
  EXPECT_TRUE(at::equal(run.cache[act::resid_post(0)], plain.cache[act::resid_post(0)]));
  EXPECT_FALSE(at::equal(run.logits(), plain_));
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
}

// The steps that a hook on one point was told of.
struct Steps {
  std::vector<std::int64_t> first_columns, lengths;
  std::vector<bool> new_tokens;
  std::vector<at::Tensor> masks;

  Hook on(Selection where) {
    return {std::move(where), [this](const at::Tensor& x, const ActivationName&, const HookStep& step) {
              first_columns.push_back(step.first_column);
              lengths.push_back(x.size(1));
              new_tokens.push_back(step.new_tokens);
              masks.push_back(step.mask);
            }};
  }
};

TEST_F(RunHooks, AHookKnowsItsStep) {
  const auto prefix = *model_.run(tokens_, {.keep_prefix = true}).prefix;
  const at::Tensor mask = at::tensor({0, 1, 1, 1, 1, 1, 1, 1}, at::kLong).view({2, 4}).to(at::kBool);
  Steps steps;
  const auto hook = steps.on(act::resid_post(1));
  model_.run(tokens_, {.hooks = hook});
  Input continued(tokens_.narrow(1, 0, 3)), padded(tokens_.narrow(1, 0, 4));
  continued.prefix = prefix;
  padded.attention_mask = mask;
  model_.run(continued, {.hooks = hook});
  model_.run(padded, {.hooks = hook});
  EXPECT_EQ(steps.first_columns, (std::vector<std::int64_t>{0, 6, 0}));
  EXPECT_EQ(steps.lengths, (std::vector<std::int64_t>{6, 3, 4}));
  EXPECT_EQ(steps.new_tokens, (std::vector<bool>{false, false, false}));
  EXPECT_FALSE(steps.masks[0].defined());
  ASSERT_TRUE(steps.masks[2].defined());
  EXPECT_TRUE(at::equal(steps.masks[2], mask));
}

TEST_F(RunHooks, AHookKnowsWhichStepOfAGenerationComputesNewTokens) {
  Steps steps;
  // A prompt of one token has the shape of a step.
  model_.generate(tokens_.narrow(1, 0, 1), {.max_new_tokens = 3,
                                            .stop = {.tokens = std::vector<std::int64_t>{}},
                                            .hooks = steps.on(act::resid_post(1)),
                                            .capture = act::resid_post(1)});
  EXPECT_EQ(steps.first_columns, (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(steps.lengths, (std::vector<std::int64_t>{1, 1, 1, 1}));
  EXPECT_EQ(steps.new_tokens, (std::vector<bool>{false, true, true, true}));
}

TEST_F(RunHooks, WhatAHookThrowsReachesTheCallerAndNothingStays) {
  EXPECT_THROW(model_.run_with_hooks(
                   tokens_, {{act::z(1), [](const at::Tensor&) { throw std::runtime_error("mine"); }}}),
               std::runtime_error);
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
  EXPECT_THROW(model_.run_with_hooks(tokens_, {{act::z(1), [](const at::Tensor&) { throw 42; }}}), int);
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
  EXPECT_THROW(model_.run_with_hooks(tokens_, {{act::z(1),
                                                [](const at::Tensor& x) {
                                                  return x.view({7, 13});
                                                }}}),
               c10::Error);
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
  const auto halfway = [&] {
    model_.run_with_hooks(tokens_,
                          {{act::resid_pre(0), [](const at::Tensor& x) { return x * 2.0; }},
                           {act::resid_pre(2), [](const at::Tensor&) { throw 1; }}},
                          {.capture = act::everything});
  };
  EXPECT_THROW(halfway(), int);
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
}

TEST_F(RunHooks, ThrowInAGradientRunLeavesTheGradMode) {
  const GradientRequest request{act::resid_pre(0), [](const at::Tensor& logits) { return logits.sum(); }};
  EXPECT_THROW(model_.run(tokens_, {.hooks = {{act::z(1), [](const at::Tensor&) { throw 42; }}},
                                    .gradients = request}),
               int);
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
  EXPECT_FALSE(model_(tokens_).requires_grad());
}

TEST_F(RunHooks, ResultOfAnotherKindNamesThePoint) {
  const auto where_of = [&](auto function) {
    const auto error = thrown_by<HookError>([&] {
      model_.run_with_hooks(tokens_, {{act::mlp_out(1), function}});
    });
    return error ? error->where() : "";
  };
  const std::string point = "blocks.1.hook_mlp_out";
  EXPECT_EQ(where_of([](const at::Tensor& x, const ActivationName&) { return x.narrow(0, 0, 1); }), point);
  EXPECT_EQ(where_of([](const at::Tensor& x, const ActivationName&) { return x.to(at::kFloat); }), point);
  EXPECT_EQ(where_of([](const at::Tensor&, const ActivationName&) { return at::Tensor(); }), point);
  EXPECT_EQ(where_of([](const at::Tensor& x, const ActivationName&) { return at::Tensor(x).zero_(); }),
            point);
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
}

TEST_F(RunHooks, InPlaceWritesAreRefusedAtEveryPoint) {
  for (const ActivationName& name : model_.names()) {
    EXPECT_TRUE(throws<HookError>(
        [&] {
          model_.run_with_hooks(tokens_, {{name, [](const at::Tensor& x) { at::Tensor(x).zero_(); }}});
        },
        name.to_string()))
        << name.to_string();
  }
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
}

TEST_F(RunHooks, UnknownPointsAreErrorsBeforeAnythingRuns) {
  int calls = 0;
  const Hook counting{act::embed, [&](const at::Tensor&) { ++calls; }};
  EXPECT_THROW(model_.run_with_hooks(tokens_, {counting, {act::rot_q(0), [](const at::Tensor&) {}}}),
               HookError);
  EXPECT_THROW(model_.run_with_hooks(tokens_, {counting}, {.edits = {zero(act::z(7))}}), HookError);
  EXPECT_THROW(model_.run_with_hooks(tokens_, {counting}, {.capture = Selection("nothing*")}), HookError);
  EXPECT_THROW(model_.run_with_hooks(tokens_, {counting}, {.capture = act::resid_pre(2), .stop_at_layer = 2}),
               HookError);
  EXPECT_THROW(model_.run_with_hooks(Input::start_at_layer(1, tokens_),
                                     {{act::embed, [&](const at::Tensor&) { ++calls; }}}),
               Error);
  EXPECT_EQ(calls, 0);
}

TEST_F(RunHooks, BackwardHookWithoutAMetricIsRefused) {
  const auto observe = [](const at::Tensor&) {};
  EXPECT_THROW(model_.run_with_hooks(tokens_, {Hook(act::z(0), observe, HookDirection::backward)}),
               HookError);
}

TEST_F(RunHooks, HookMayRunTheSameModel) {
  at::Tensor inner;
  const auto outer =
      model_.run_with_hooks(tokens_, {{act::resid_pre(1), [&](const at::Tensor& x) {
                                         inner = model_.run_with_cache(tokens_, act::resid_pre).logits();
                                         return x * 0.5;
                                       }}});
  EXPECT_TRUE(at::equal(inner, plain_)) << "the inner run saw the outer run's hooks";
  const auto alone =
      model_.run_with_hooks(tokens_, {{act::resid_pre(1), [](const at::Tensor& x) { return x * 0.5; }}});
  EXPECT_TRUE(at::equal(outer.logits(), alone.logits()));
}

TEST_F(RunHooks, HookMayReturnATensorOfACache) {
  const ActivationCache cache = model_.run_with_cache(tokens_, act::resid_pre).cache;
  const at::Tensor kept = cache[act::resid_pre(1)], copy = kept.clone();
  const auto run =
      model_.run_with_hooks(tokens_, {{act::resid_pre(1), [&](const at::Tensor&) { return kept; }}});
  EXPECT_TRUE(at::equal(run.logits(), plain_));
  EXPECT_TRUE(at::equal(kept, copy)) << "something wrote into the cache";
}

TEST_F(RunHooks, CacheDoesNotChangeAfterwards) {
  const auto run = model_.run_with_cache(tokens_, act::everything);
  std::vector<at::Tensor> copies;
  for (const auto& entry : run.cache) copies.push_back(entry.value().clone());
  model_.run_with_cache(random_tokens(model_.config(), {2, 6}, 99), act::everything);
  model_.run(tokens_, {.edits = {zero(act::z), scale(act::resid_pre, 3.0)}, .capture = act::everything});
  model_.run_with_hooks(tokens_, {{act::everything, [](const at::Tensor& x) { return x.clone(); }}});
  std::size_t number = 0;
  for (const auto& entry : run.cache)
    EXPECT_TRUE(at::equal(entry.value(), copies[number++])) << entry.name.to_string();
}

TEST_F(RunHooks, CacheHoldsWhatDownstreamSaw) {
  const auto run =
      model_.run_with_hooks(tokens_, {{act::attn_out(1), [](const at::Tensor& x) { return x + 1.0; }}},
                            {.edits = {scale(act::attn_out(1), 2.0)}, .capture = act::defaults});
  EXPECT_LT(relative_difference(run.cache[act::resid_mid(1)],
                                run.cache[act::resid_pre(1)] + run.cache[act::attn_out(1)]),
            kDoubleTolerance);
  const auto plain = model_.run_with_cache(tokens_);
  EXPECT_LT(relative_difference(run.cache[act::attn_out(1)], (plain.cache[act::attn_out(1)] + 1.0) * 2.0),
            kDoubleTolerance);
}

TEST_F(RunHooks, LargeRunsDoNotRecycleKeptMemory) {
  ModelConfig config = small_config();
  config.d_model = 128;
  config.d_mlp = 512;
  config.n_ctx = 128;
  config.dtype = at::kFloat;
  const HookedTransformer model = random_model(config);
  const at::Tensor tokens = random_tokens(config, {4, 128});
  const auto first = model.run_with_cache(tokens, act::everything);
  std::vector<at::Tensor> copies;
  for (const auto& entry : first.cache) copies.push_back(entry.value().clone());
  for (int i = 0; i < 3; ++i) model.run_with_cache(random_tokens(config, {4, 128}, 50 + i), act::everything);
  std::size_t number = 0;
  for (const auto& entry : first.cache)
    EXPECT_TRUE(at::equal(entry.value(), copies[number++])) << entry.name.to_string();
}

TEST_F(RunHooks, PatchingARunWithItselfChangesNothing) {
  const auto clean = model_.run_with_cache(tokens_, act::everything);
  for (const auto& entry : clean.cache) {
    if (entry.name.site == Site::tokens) continue;
    const auto patched = model_.run(tokens_, {.edits = {replace(Address(entry.name), clean.cache)}});
    EXPECT_LT(relative_difference(patched.logits(), plain_), kDoubleTolerance) << entry.name.to_string();
  }
}

TEST_F(RunHooks, PatchingTheWholeInputRestoresTheCleanRun) {
  const auto clean = model_.run_with_cache(tokens_, act::resid_pre(0));
  const at::Tensor corrupted = random_tokens(model_.config(), {2, 6}, 77);
  EXPECT_FALSE(at::equal(model_(corrupted), plain_));
  const auto restored = model_.run(corrupted, {.edits = {replace(act::resid_pre(0), clean.cache)}});
  EXPECT_LT(relative_difference(restored.logits(), plain_), kDoubleTolerance);
}

TEST_F(RunHooks, ReplacementFromAnotherModelOrLengthIsRefused) {
  ModelConfig wider = small_config();
  wider.d_model = 12;
  const auto other = random_model(wider).run_with_cache(tokens_);
  EXPECT_THROW(model_.run(tokens_, {.edits = {replace(act::resid_pre(1), other.cache)}}), HookError);
  const auto longer = model_.run_with_cache(random_tokens(model_.config(), {2, 7}));
  EXPECT_THROW(model_.run(tokens_, {.edits = {replace(act::resid_pre(1), longer.cache)}}), HookError);
  ModelConfig single = small_config();
  single.dtype = at::kFloat;
  const auto floats = random_model(single).run_with_cache(tokens_);
  EXPECT_THROW(model_.run(tokens_, {.edits = {replace(act::resid_pre(1), floats.cache)}}), HookError);
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
}

// Ids from hooks and edits are checked like the caller's: a missing embedding row is an error.
TEST_F(RunHooks, TokensEditedOutOfTheVocabularyAreRefused) {
  for (const double id : {-1.0, 11.0}) {
    EXPECT_TRUE(throws<HookError>([&] { model_.run(tokens_, {.edits = {set(act::tokens, id)}}); },
                                  "hook_tokens", {"0 to 10"}))
        << id;
  }
  const auto run = model_.run(tokens_, {.edits = {set(act::tokens, 5.0)}});
  EXPECT_TRUE(at::equal(run.logits(), model_(at::full_like(tokens_, 5))));
}

}  // namespace
}  // namespace hooked::run_hooks_test
