#include "hooked/analysis/sweep.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hooked/core/error.h"
#include "hooked/hooks/edit.h"
#include "tests/analysis/two_layer_model.h"
#include "tests/support/random_config.h"
#include "tests/support/thrown_by.h"

namespace hooked::sweep_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr double kFloat64Tolerance = 1e-10;

/// The score of one full run with the activation at `address` replaced.
double one_at_a_time(const HookedTransformer& model, const at::Tensor& tokens, const Address& address,
                     const SweepOptions& options) {
  return options.metric.score(model, tokens, {.edits = {replace(address, options.from)}})[0].item<double>();
}

struct Inputs {
  at::Tensor clean, corrupted;
};

Inputs inputs_for(const HookedTransformer& model) {
  const auto vocab = model.config().d_vocab;
  return {random_row(6, vocab, 1), random_row(6, vocab, 2)};
}

struct SweptSite {
  const char* name;
  act::BlockSite site;
  std::vector<Axis> over;
};

class SweepOverSite : public testing::TestWithParam<SweptSite> {};

TEST_P(SweepOverSite, EqualsOneFullRunPerPlace) {
  const auto& [name, site, over] = GetParam();
  const auto model = random_model_of(two_layer_config());
  const auto [clean, corrupted] = inputs_for(model);
  const SweepOptions options{.site = site,
                             .over = over,
                             .from = model.run_with_cache(clean, act::everything).cache,
                             .into = corrupted,
                             .metric = logit_difference(3, 7),
                             .tokens_per_run = 5};
  const auto grid = sweep(model, options);
  ASSERT_EQ(grid.axes().size(), over.size());
  const double unpatched =
      options.metric(model.run(corrupted, {.logit_positions = {{-1}}}).logits())[0].item<double>();
  double largest_effect = 0;
  for (const auto& cell : grid.largest(100000)) {
    std::int64_t layer = 0;
    for (std::size_t i = 0; i < over.size(); ++i) {
      if (over[i] == Axis::layer) layer = cell.index[i];
    }
    Address address = site(static_cast<std::int32_t>(layer));
    for (std::size_t i = 0; i < over.size(); ++i) {
      if (over[i] != Axis::layer) address = address.at(over[i], cell.index[i]);
    }
    EXPECT_NEAR(cell.value, one_at_a_time(model, corrupted, address, options), kFloat64Tolerance)
        << address.to_string();
    largest_effect = std::max(largest_effect, std::abs(cell.value - unpatched));
  }
  EXPECT_EQ(static_cast<std::int64_t>(grid.largest(100000).size()), grid.values().numel());
  EXPECT_GT(largest_effect, 1e-3) << "no patch changed anything";
}

INSTANTIATE_TEST_SUITE_P(
    Sites, SweepOverSite,
    testing::Values(SweptSite{"resid_pre", act::resid_pre, {Axis::layer, Axis::pos}},
                    SweptSite{"resid_pre_transposed", act::resid_pre, {Axis::pos, Axis::layer}},
                    SweptSite{"resid_mid", act::resid_mid, {Axis::layer, Axis::pos}},
                    SweptSite{"attn_out", act::attn_out, {Axis::layer, Axis::pos}},
                    SweptSite{"mlp_out", act::mlp_out, {Axis::layer, Axis::pos}},
                    SweptSite{"z_by_head", act::z, {Axis::layer, Axis::head}},
                    SweptSite{"z_by_pos_and_head", act::z, {Axis::layer, Axis::pos, Axis::head}},
                    SweptSite{"result", act::result, {Axis::layer, Axis::head}},
                    SweptSite{"q", act::q, {Axis::layer, Axis::head}},
                    SweptSite{"k", act::k, {Axis::layer, Axis::pos, Axis::head}},
                    SweptSite{"v", act::v, {Axis::layer, Axis::head}},
                    SweptSite{"pattern_by_head", act::pattern, {Axis::layer, Axis::head}},
                    SweptSite{"pattern_by_query", act::pattern, {Axis::layer, Axis::head, Axis::pos}},
                    SweptSite{"pattern_by_key", act::pattern, {Axis::layer, Axis::query, Axis::key}},
                    SweptSite{"attn_scores", act::attn_scores, {Axis::layer, Axis::head}},
                    SweptSite{"q_input", act::q_input, {Axis::layer, Axis::head}},
                    SweptSite{"ln1_scale", act::ln1_scale, {Axis::layer, Axis::pos}},
                    SweptSite{"mlp_neurons", act::post, {Axis::layer, Axis::d_mlp}},
                    SweptSite{"whole_layer", act::resid_post, {Axis::layer}}),
    [](const auto& info) { return std::string(info.param.name); });

class SweepOfRandomConfig : public testing::TestWithParam<std::uint64_t> {};

TEST_P(SweepOfRandomConfig, EqualsOneFullRunPerPlace) {
  const auto model = random_model_of(random_config(GetParam()));
  const auto [clean, corrupted] = inputs_for(model);
  for (const auto& [site, axis] :
       {std::pair{act::resid_pre, Axis::pos}, {act::v, Axis::head}, {act::attn_out, Axis::pos}}) {
    const SweepOptions options{.site = site,
                               .over = {Axis::layer, axis},
                               .from = model.run_with_cache(clean).cache,
                               .into = corrupted,
                               .metric = log_probability(1, 4)};
    for (const auto& cell : sweep(model, options).largest(1000)) {
      const auto address = site(static_cast<std::int32_t>(cell.index[0])).at(axis, cell.index[1]);
      EXPECT_NEAR(cell.value, one_at_a_time(model, corrupted, address, options), kFloat64Tolerance)
          << address.to_string();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SweepOfRandomConfig, testing::Range<std::uint64_t>(0, 24));

class Sweep : public testing::Test {
 protected:
  SweepOptions options() const {
    return {.site = act::resid_pre,
            .over = {Axis::layer, Axis::pos},
            .from = model_.run_with_cache(inputs_.clean).cache,
            .into = inputs_.corrupted,
            .metric = logit_difference(3, 7)};
  }

  HookedTransformer model_ = random_model_of(two_layer_config());
  Inputs inputs_ = inputs_for(model_);
};

TEST_F(Sweep, PatchingWithItsOwnActivationsChangesNothing) {
  auto own = options();
  own.from = model_.run_with_cache(inputs_.corrupted).cache;
  const double score =
      own.metric(model_.run(inputs_.corrupted, {.logit_positions = {{-1}}}).logits())[0].item<double>();
  for (const auto& cell : sweep(model_, own).largest(100)) EXPECT_NEAR(cell.value, score, kFloat64Tolerance);
}

/// Every number is that of one full run with this patch.
void expect_full_runs(const HookedTransformer& model, const SweepOptions& options, const Grid& grid) {
  double largest = 0;
  for (const auto& cell : grid.largest(100000)) {
    const auto layer =
        std::find(options.over.begin(), options.over.end(), Axis::layer) - options.over.begin();
    Address address = options.site(static_cast<std::int32_t>(cell.index[static_cast<std::size_t>(layer)]));
    for (std::size_t i = 0; i < options.over.size(); ++i) {
      if (options.over[i] != Axis::layer) address = address.at(options.over[i], cell.index[i]);
    }
    const auto run =
        model.run(options.into,
                  options.metric.on(model, options.into).needs({.edits = {replace(address, options.from)}}));
    const double alone = options.metric.on(model, options.into)(run)[0].item<double>();
    EXPECT_NEAR(cell.value, alone, kFloat64Tolerance) << address.to_string();
    largest = std::max(largest, std::abs(cell.value - grid.values().flatten()[0].item<double>()));
  }
  EXPECT_GT(largest, 1e-4) << "all numbers are the same";
}

TEST_F(Sweep, EveryQueryAndKeyOfEveryHeadIsAPlace) {
  auto single = options();
  single.site = act::pattern;
  single.over = {Axis::layer, Axis::head, Axis::query, Axis::key};
  const auto grid = sweep(model_, single);
  EXPECT_EQ(grid.values().sizes(), (at::IntArrayRef{2, 4, 6, 6}));
  expect_full_runs(model_, single, grid);
}

TEST_F(Sweep, ALayerWithoutTheSiteGivesNaN) {
  ModelConfig config = two_layer_config();
  config.mlp = MlpKind::gated;
  config.experts = Experts{.n_experts = 3, .per_token = 2, .d_expert = 8, .dense_layers = {true, false}};
  const auto model = random_model_of(config);
  auto routed = options();
  routed.site = act::expert_weights;
  routed.from = model.run_with_cache(inputs_.clean, act::everything).cache;
  const auto grid = sweep(model, routed);
  EXPECT_TRUE(std::isnan(grid.at({0, 2})));
  EXPECT_FALSE(std::isnan(grid.at({1, 2})));
}

TEST_F(Sweep, ScopedHooksStayInForce) {
  const auto ablation = model_.hook(act::z(0), [](const at::Tensor& z) { return z * 0.25; });
  const auto steering = model_.hook(act::resid_pre(1), [](const at::Tensor& x) { return x + 0.5; });
  for (const act::BlockSite& site : {act::resid_pre, act::mlp_out}) {
    auto hooked = options();
    hooked.site = site;
    expect_full_runs(model_, hooked, sweep(model_, hooked));
  }
}

TEST_F(Sweep, PaddingOnEitherSideIsNotPatchedInto) {
  for (const bool left : {true, false}) {
    SCOPED_TRACE(left);
    at::Tensor mask = at::ones({1, 6}, at::kLong);
    mask.select(1, left ? 0 : 5).zero_();
    for (const auto& [site, axis] :
         {std::pair{act::resid_pre, Axis::pos}, {act::v, Axis::pos}, {act::z, Axis::head}}) {
      auto padded = options();
      padded.over = {Axis::layer, axis};
      padded.site = site;
      padded.into = Input(inputs_.corrupted, {.attention_mask = mask});
      padded.from = model_.run_with_cache(Input(inputs_.clean, {.attention_mask = mask})).cache;
      expect_full_runs(model_, padded, sweep(model_, padded));
    }
  }
}

TEST_F(Sweep, HowManyTokensAreComputedTogetherChangesNothing) {
  for (const act::BlockSite& site : {act::resid_pre, act::z, act::k, act::pattern}) {
    auto some = options();
    some.site = site;
    const auto together = sweep(model_, some);
    some.tokens_per_run = 1;
    EXPECT_LT((sweep(model_, some).values() - together.values()).abs().max().item<double>(), 1e-12);
  }
}

TEST_F(Sweep, PatchingTheWholeStreamRestoresTheCleanRun) {
  auto whole = options();
  whole.over = {Axis::layer};
  const double clean =
      whole.metric(model_.run(inputs_.clean, {.logit_positions = {{-1}}}).logits())[0].item<double>();
  const auto grid = sweep(model_, whole);
  for (const auto& cell : grid.largest(100)) EXPECT_NEAR(cell.value, clean, kFloat64Tolerance);
  EXPECT_EQ(grid.values().numel(), 2);
}

TEST_F(Sweep, MetricsMayLookAtSeveralPositions) {
  auto several = options();
  several.metric =
      Metric([](const at::Tensor& logits) { return logits.select(2, 3).sum(1); }, {0, -2, 3}, "sum");
  const auto grid = sweep(model_, several);
  EXPECT_NEAR(grid.at({1, 2}), one_at_a_time(model_, inputs_.corrupted, act::resid_pre(1).pos(2), several),
              kFloat64Tolerance);
  EXPECT_EQ(grid.unit(), "sum");
}

TEST_F(Sweep, MetricsMayReadActivations) {
  auto of_attention = options();
  of_attention.metric = attention(act::pattern(0).head(1), Position::last(), 2);
  const auto grid = sweep(model_, of_attention);
  const auto unpatched = of_attention.metric.score(model_, inputs_.corrupted)[0].item<double>();
  for (std::int64_t pos = 0; pos < 6; ++pos) {
    EXPECT_NEAR(grid.at({0, pos}),
                one_at_a_time(model_, inputs_.corrupted, act::resid_pre(0).pos(pos), of_attention),
                kFloat64Tolerance);
    EXPECT_NEAR(grid.at({1, pos}), unpatched, kFloat64Tolerance) << "what is patched later cannot change it";
  }
  EXPECT_GT((grid.values()[0] - unpatched).abs().max().item<double>(), 1e-6);
}

TEST_F(Sweep, FourAxesFitAGrid) {
  auto by_edge = options();
  by_edge.site = act::pattern;
  by_edge.over = {Axis::layer, Axis::head, Axis::query, Axis::key};
  by_edge.from = model_.run_with_cache(inputs_.clean, act::pattern).cache;
  const auto grid = sweep(model_, by_edge);
  ASSERT_EQ(grid.values().sizes(), at::IntArrayRef({2, 4, 6, 6}));
  EXPECT_NEAR(grid.at({1, 3, 5, 2}),
              one_at_a_time(model_, inputs_.corrupted, act::pattern(1).head(3).query(5).key(2), by_edge),
              kFloat64Tolerance);
}

TEST_F(Sweep, LabelsAreTheAxes) {
  const auto grid = sweep(model_, options());
  EXPECT_EQ(grid.title(), "Patching resid_pre");
  EXPECT_EQ(grid.axes()[0].name, "layer");
  EXPECT_EQ(grid.axes()[1].labels, std::vector<std::string>({"0", "1", "2", "3", "4", "5"}));
}

TEST_F(Sweep, RefusesAxesThatTheSiteDoesNotHave) {
  auto wrong = options();
  wrong.over = {Axis::layer, Axis::head};
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, wrong); }),
              AllOf(HasSubstr("resid_pre cannot be swept over head"), HasSubstr("pos, d_model")));
  wrong.over = {Axis::pos};
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, wrong); }), HasSubstr("no Axis::layer"));
  wrong.over = {Axis::layer, Axis::pos, Axis::pos};
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, wrong); }), HasSubstr("pos stands twice"));
  wrong.over = {Axis::layer, Axis::batch};
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, wrong); }), HasSubstr("over batch"));
}

TEST_F(Sweep, RefusesInputsThatDoNotFit) {
  auto longer = options();
  longer.into = random_row(7, 11, 3);
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, longer); }),
              AllOf(HasSubstr("blocks.0.hook_resid_pre"), HasSubstr("[1, 7, 16]"), HasSubstr("[1, 6, 16]")));
  auto batch = options();
  batch.into = inputs_.corrupted.expand({2, -1});
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { sweep(model_, batch); }), HasSubstr("got [2, 6]"));
  auto missing = options();
  missing.from = model_.run_with_cache(inputs_.clean, act::z).cache;
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, missing); }),
              HasSubstr("blocks.0.hook_resid_pre"));
  auto sliced = options();
  sliced.from =
      model_.run_with_cache(inputs_.clean, act::resid_pre, {.keep = {.positions = AxisIndex(-1)}}).cache;
  EXPECT_THROW(sweep(model_, sliced), HookError);
}

TEST_F(Sweep, RefusesMetricsThatMixRows) {
  auto mixed = options();
  mixed.metric = Metric([](const at::Tensor& logits) { return logits.select(1, 0).select(1, 0).cumsum(0); },
                        {-1}, "running sum");
  const auto error = thrown_by<ShapeError>([&] { sweep(model_, mixed); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), "running sum");
  EXPECT_THAT(error->what(), HasSubstr("looks at each row alone"));
}

TEST_F(Sweep, LeavesNothingBehind) {
  const auto before = model_(inputs_.clean);
  sweep(model_, options());
  EXPECT_TRUE(model_(inputs_.clean).equal(before));
}

}  // namespace
}  // namespace hooked::sweep_test
