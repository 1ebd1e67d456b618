#include "hooked/analysis/sweep.h"

#include <fmt/format.h>

#include "tests/support/tiny_model.h"

namespace hooked::sweep_test {
namespace {

constexpr double kFloat64Tolerance = 1e-10;

/// A sweep from a run that the tests patch from as well, cell by cell.
struct Case {
  SweepOptions options;
  ActivationCache from;

  Case(SweepOptions given, ActivationCache run) : options(std::move(given)), from(std::move(run)) {
    options.from = from;
  }
  const Metric& metric() const { return options.metric.front(); }
  Address whole(std::int64_t layer) const {
    return ActivationName{
        .site = options.site->site, .stack = options.stack, .layer = static_cast<std::int32_t>(layer)};
  }
  /// The address of a cell, of axes that are all swept whole.
  Address place(const GridCell& cell) const {
    std::int64_t layer = 0;
    for (std::size_t i = 0; i < options.over.size(); ++i) {
      if (options.over[i].axis == Axis::layer) layer = cell.index[i];
    }
    Address address = whole(layer);
    for (std::size_t i = 0; i < options.over.size(); ++i) {
      if (options.over[i].axis != Axis::layer) address = address.at(options.over[i].axis, cell.index[i]);
    }
    return address;
  }
};

/// The score of one full run with the activation at `address` replaced.
double one_at_a_time(const HookedTransformer& model, const Input& input, const Address& address,
                     const Case& of) {
  return of.metric().score(model, input, {.edits = {replace(address, of.from)}})[0].item<double>();
}

std::vector<SweptAxis> all_of(const std::vector<Axis>& axes) { return {axes.begin(), axes.end()}; }

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
  const auto model = random_model(two_layer_config());
  const auto [clean, corrupted] = inputs_for(model);
  const Case swept({.site = site,
                    .over = all_of(over),
                    .into = corrupted,
                    .metric = logit_difference(3, 7),
                    .tokens_per_run = 5},
                   model.run_with_cache(clean, act::everything).cache);
  const auto grid = sweep(model, swept.options);
  ASSERT_EQ(grid.axes().size(), over.size());
  const double unpatched = swept.metric().score(model, corrupted)[0].item<double>();
  double largest_effect = 0;
  for (const auto& cell : grid.largest(100000)) {
    const Address address = swept.place(cell);
    EXPECT_NEAR(cell.value, one_at_a_time(model, corrupted, address, swept), kFloat64Tolerance)
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
    named);

class SweepOfRandomConfig : public testing::TestWithParam<std::uint64_t> {};

TEST_P(SweepOfRandomConfig, EqualsOneFullRunPerPlace) {
  const auto model = random_model(random_double_config(GetParam()));
  const auto [clean, corrupted] = inputs_for(model);
  for (const auto& [site, axis] :
       {std::pair{act::resid_pre, Axis::pos}, {act::v, Axis::head}, {act::attn_out, Axis::pos}}) {
    const Case swept(
        {.site = site, .over = {Axis::layer, axis}, .into = corrupted, .metric = log_probability(1, 4)},
        model.run_with_cache(clean).cache);
    for (const auto& cell : sweep(model, swept.options).largest(1000)) {
      EXPECT_NEAR(cell.value, one_at_a_time(model, corrupted, swept.place(cell), swept), kFloat64Tolerance)
          << swept.place(cell).to_string();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SweepOfRandomConfig, testing::Range<std::uint64_t>(0, 24));

class Sweep : public testing::Test {
 protected:
  Case options() const {
    return {{.site = act::resid_pre,
             .over = {Axis::layer, Axis::pos},
             .into = inputs_.corrupted,
             .metric = logit_difference(3, 7)},
            model_.run_with_cache(inputs_.clean, act::everything).cache};
  }
  SweepOptions plain() const { return options().options; }

  HookedTransformer model_ = random_model(two_layer_config());
  Inputs inputs_ = inputs_for(model_);
};

TEST_F(Sweep, PatchingWithItsOwnActivationsChangesNothing) {
  auto own = plain();
  own.from = model_.run_with_cache(inputs_.corrupted).cache;
  const double score = scores(model_, inputs_.corrupted, own.metric).at({});
  for (const auto& cell : sweep(model_, own).largest(100)) EXPECT_NEAR(cell.value, score, kFloat64Tolerance);
}

/// Every number is that of one full run with this patch.
void expect_full_runs(const HookedTransformer& model, const Case& swept) {
  double largest = 0;
  const Grid grid = sweep(model, swept.options);
  const double first = grid.largest(1).front().value;
  for (const auto& cell : grid.largest(100000)) {
    const Address address = swept.place(cell);
    EXPECT_NEAR(cell.value, one_at_a_time(model, swept.options.into, address, swept), kFloat64Tolerance)
        << address.to_string();
    largest = std::max(largest, std::abs(cell.value - first));
  }
  EXPECT_GT(largest, 1e-4) << "all numbers are the same";
}

TEST_F(Sweep, EveryQueryAndKeyOfEveryHeadIsAPlace) {
  auto single = options();
  single.options.site = act::pattern;
  single.options.over = {Axis::layer, Axis::head, Axis::query, Axis::key};
  EXPECT_EQ(sweep(model_, single.options).values().sizes(), (at::IntArrayRef{2, 4, 6, 6}));
  expect_full_runs(model_, single);
}

TEST_F(Sweep, ALayerWithoutTheSiteGivesNaN) {
  ModelConfig config = two_layer_config();
  config.mlp = MlpKind::gated;
  config.experts = Experts{.n_experts = 3, .per_token = 2, .d_expert = 8, .dense_layers = {true, false}};
  const auto model = random_model(config);
  auto routed = plain();
  routed.site = act::expert_weights;
  routed.from = model.run_with_cache(inputs_.clean, act::everything).cache;
  const auto grid = sweep(model, routed);
  EXPECT_TRUE(std::isnan(grid.at({0, 2})));
  EXPECT_FALSE(std::isnan(grid.at({1, 2})));
}

TEST_F(Sweep, PlacesThatOneLayerLacksGiveNaNThere) {
  ModelConfig config = two_layer_config();
  config.window = Window{.size = 3, .layers = {true, false}};
  config.full_heads = FullHeads{.d_head = 8, .n_kv_heads = 2};
  const auto model = random_model(config);
  auto uneven = options();
  uneven.options.site = act::v;
  uneven.options.over = {Axis::layer, Axis::kv_head};
  uneven.options.from = uneven.from = model.run_with_cache(inputs_.clean, act::everything).cache;
  const auto grid = sweep(model, uneven.options);
  ASSERT_EQ(grid.values().sizes(), (at::IntArrayRef{2, 4}));
  for (const std::int64_t head : {2, 3}) EXPECT_TRUE(std::isnan(grid.at({1, head}))) << head;
  EXPECT_FALSE(grid.values()[0].isnan().any().item<bool>());
  expect_full_runs(model, uneven);
}

TEST_F(Sweep, ScopedHooksStayInForce) {
  const auto ablation = model_.hook(act::z(0), [](const at::Tensor& z) { return z * 0.25; });
  const auto steering = model_.hook(act::resid_pre(1), [](const at::Tensor& x) { return x + 0.5; });
  for (const act::BlockSite& site : {act::resid_pre, act::mlp_out}) {
    auto hooked = options();
    hooked.options.site = site;
    expect_full_runs(model_, hooked);
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
      padded.options.over = {Axis::layer, axis};
      padded.options.site = site;
      padded.options.into = Input(inputs_.corrupted, {.attention_mask = mask});
      padded.from = model_.run_with_cache(Input(inputs_.clean, {.attention_mask = mask})).cache;
      padded.options.from = padded.from;
      expect_full_runs(model_, padded);
      if (axis == Axis::pos) {
        EXPECT_TRUE(std::isnan(sweep(model_, padded.options).at({1, left ? 0 : 5}))) << "that is padding";
      }
    }
  }
}

TEST_F(Sweep, HowManyTokensAreComputedTogetherChangesNothing) {
  for (const act::BlockSite& site : {act::resid_pre, act::z, act::k, act::pattern}) {
    auto some = plain();
    some.site = site;
    const auto together = sweep(model_, some);
    some.tokens_per_run = 1;
    EXPECT_LT((sweep(model_, some).values() - together.values()).abs().max().item<double>(), 1e-12);
  }
}

TEST_F(Sweep, PatchingTheWholeStreamRestoresTheCleanRun) {
  auto whole = plain();
  whole.over = {Axis::layer};
  const double clean = scores(model_, inputs_.clean, whole.metric).at({});
  const auto grid = sweep(model_, whole);
  for (const auto& cell : grid.largest(100)) EXPECT_NEAR(cell.value, clean, kFloat64Tolerance);
  EXPECT_EQ(grid.values().numel(), 2);
}

TEST_F(Sweep, MetricsMayLookAtSeveralPositions) {
  auto several = options();
  several.options.metric =
      Metric([](const at::Tensor& logits) { return logits.select(2, 3).sum(1); }, {0, -2, 3}, "sum");
  const auto grid = sweep(model_, several.options);
  EXPECT_NEAR(grid.at({1, 2}), one_at_a_time(model_, inputs_.corrupted, act::resid_pre(1).pos(2), several),
              kFloat64Tolerance);
  EXPECT_EQ(grid.unit(), "sum");
}

TEST_F(Sweep, MetricsMayReadActivations) {
  auto of_attention = options();
  of_attention.options.metric = attention(act::pattern(0).head(1), Position::last(), 2);
  const auto grid = sweep(model_, of_attention.options);
  const auto unpatched = of_attention.metric().score(model_, inputs_.corrupted)[0].item<double>();
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
  by_edge.options.site = act::pattern;
  by_edge.options.over = {Axis::layer, Axis::head, Axis::query, Axis::key};
  const auto grid = sweep(model_, by_edge.options);
  ASSERT_EQ(grid.values().sizes(), at::IntArrayRef({2, 4, 6, 6}));
  EXPECT_NEAR(grid.at({1, 3, 5, 2}),
              one_at_a_time(model_, inputs_.corrupted, act::pattern(1).head(3).query(5).key(2), by_edge),
              kFloat64Tolerance);
}

TEST_F(Sweep, LabelsAreTheAxes) {
  const auto grid = sweep(model_, plain());
  EXPECT_EQ(grid.title(), "Patching resid_pre with another run");
  EXPECT_EQ(grid.axes()[0].name, "layer");
  EXPECT_EQ(grid.axes()[1].labels, std::vector<std::string>({"0", "1", "2", "3", "4", "5"}));
}

TEST_F(Sweep, RefusesAxesThatTheSiteDoesNotHave) {
  auto wrong = plain();
  wrong.over = {Axis::layer, Axis::head};
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, wrong); }),
              AllOf(HasSubstr("resid_pre cannot be swept over head"), HasSubstr("pos, d_model")));
  wrong.over = {Axis::pos};
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, wrong); }), HasSubstr("no axis layer"));
  wrong.over = {Axis::layer, Axis::pos, Axis::pos};
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, wrong); }), HasSubstr("pos occurs twice"));
  wrong.over = {Axis::layer, {Axis::pos, {6}}};
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { sweep(model_, wrong); }), HasSubstr("outside the tokens"));
  wrong.over = {{Axis::layer, {2}}};
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, wrong); }),
              HasSubstr("2 is not a place on axis layer"));
  wrong.over = {Axis::layer, {Axis::batch, {1}}};
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, wrong); }), HasSubstr("1 is not a row"));
  wrong.table = {{act::z(0)}};
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, wrong); }),
              HasSubstr("either `site` and `over`"));
}

TEST_F(Sweep, RefusesInputsThatDoNotFit) {
  auto longer = plain();
  longer.into = random_row(7, 11, 3);
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, longer); }),
              AllOf(HasSubstr("blocks.0.hook_resid_pre"), HasSubstr("7 columns"), HasSubstr("6 columns")));
  auto rows = plain();
  rows.from = model_.run_with_cache(inputs_.clean.expand({2, -1})).cache;
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, rows); }), HasSubstr("got 2"));
  auto missing = plain();
  missing.from = model_.run_with_cache(inputs_.clean, act::z).cache;
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, missing); }),
              HasSubstr("blocks.0.hook_resid_pre"));
  auto sliced = plain();
  sliced.from =
      model_.run_with_cache(inputs_.clean, act::resid_pre, {.keep = {.positions = AxisIndex(-1)}}).cache;
  EXPECT_THROW(sweep(model_, sliced), HookError);
}

TEST_F(Sweep, RefusesMetricsThatMixRows) {
  auto mixed = plain();
  mixed.metric = Metric([](const at::Tensor& logits) { return logits.select(1, 0).select(1, 0).cumsum(0); },
                        {-1}, "running sum");
  const auto error = thrown_by<ShapeError>([&] { sweep(model_, mixed); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), "running sum");
  EXPECT_THAT(error->what(), HasSubstr("looks at each row separately"));
}

TEST_F(Sweep, LeavesNothingBehind) {
  const auto before = model_(inputs_.clean);
  sweep(model_, plain());
  EXPECT_TRUE(model_(inputs_.clean).equal(before));
}

}  // namespace
}  // namespace hooked::sweep_test
