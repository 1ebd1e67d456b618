#include "hooked/analysis/attribution_patching.h"

#include <ATen/ops/corrcoef.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "hooked/analysis/prompt_pairs.h"
#include "tests/support/tiny_model.h"

namespace hooked::attribution_patching_test {
namespace {

ModelConfig four_layers() {
  ModelConfig config = two_layer_config();
  config.n_layers = 4;
  return config;
}

class AttributionPatchingOf : public testing::Test {
 protected:
  HookedTransformer model_ = random_model(four_layers());
  at::Tensor clean_ = random_row(6, 11, 1), corrupted_ = random_row(6, 11, 2);
  ActivationCache from_ = model_.run_with_cache(clean_, act::everything).cache;

  SweepOptions sweep_over(SweptSite site, std::vector<SweptAxis> over,
                          const Metric& metric = logit_difference(3, 7)) const {
    return {.site = site, .over = std::move(over), .from = from_, .into = corrupted_, .metric = metric};
  }
  /// What the exact sweep changes.
  at::Tensor effects(const SweepOptions& options) const {
    const SweepReport report = sweep_report(model_, options);
    return report.grid.values() - report.unpatched.values().item<double>();
  }
};

/// A share of the difference is patched in: a gradient is exact as the share goes to zero.
TEST_F(AttributionPatchingOf, IsTheSlopeOfTheSweep) {
  const auto here = model_.run_with_cache(corrupted_, act::everything).cache;
  constexpr double kShare = 1e-4;
  struct Case {
    const char* name;
    SweptSite site;
    std::vector<SweptAxis> over;
  };
  const Case cases[] = {{"stream", act::resid_pre, {Axis::layer, Axis::pos}},
                        {"heads", act::z, {Axis::layer, Axis::pos, Axis::head}},
                        {"queries", act::q, {Axis::layer, Axis::head}},
                        {"keys", act::k, {Axis::layer, {Axis::head, {0, 2}}, Axis::pos}},
                        {"pattern", act::pattern, {Axis::layer, Axis::head, Axis::query, Axis::key}},
                        {"scores", act::attn_scores, {Axis::layer, Axis::head}},
                        {"neurons", act::post, {{Axis::layer, {1, 3}}, Axis::d_mlp}}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    SweepOptions options = sweep_over(one.site, one.over);
    const at::Tensor estimates = attribution_patching(model_, {.sweep = options}).values();
    options.from = PatchSource::mixture(PatchSource(here), PatchSource(from_), kShare);
    const at::Tensor slopes = effects(options) / kShare;
    ASSERT_EQ(estimates.sizes(), slopes.sizes());
    EXPECT_TRUE(estimates.isnan().equal(slopes.isnan()));
    EXPECT_GT(largest_number(slopes), 1e-4);
    EXPECT_LE(largest_number(estimates - slopes), 2e-3 * largest_number(slopes));
  }
}

TEST_F(AttributionPatchingOf, PlacesMayStandElsewhere) {
  const SweepOptions options = sweep_over(act::mlp_out, {Axis::layer, {Axis::pos, {SweptPlace(5, 2)}}});
  const auto run = model_.run(
      corrupted_,
      {.capture = act::mlp_out, .gradients = GradientRequest{act::mlp_out, logit_difference(3, 7)}});
  const Grid made = attribution_patching(model_, {.sweep = options});
  for (std::int32_t layer = 0; layer < 4; ++layer) {
    const Address place = act::mlp_out(layer).pos(5);
    const at::Tensor change = from_[act::mlp_out(layer).pos(2)] - run.cache[place];
    EXPECT_NEAR(made.at({layer, 0}), (change * run.gradients[place]).sum().item<double>(), 1e-12);
  }
}

/// Integrated between the two values of one activation, the estimate for all of it is the effect.
TEST_F(AttributionPatchingOf, IntegrationOverAnActivationIsComplete) {
  for (const SweptSite& site :
       {SweptSite(act::resid_pre), SweptSite(act::z), SweptSite(act::pattern), SweptSite(act::post)}) {
    const SweepOptions options = sweep_over(site, {Axis::layer});
    const at::Tensor exact = effects(options);
    const auto error = [&](std::int64_t steps) {
      const AttributionPatchingOptions many{
          .sweep = options, .integration = {.over = IntegrateOver::activations, .steps = steps}};
      return largest_number(attribution_patching(model_, many).values() - exact);
    };
    EXPECT_GT(largest_number(exact), 1e-3);
    EXPECT_LE(error(64), 1e-3 * largest_number(exact));
    EXPECT_LE(error(64), 0.1 * error(8) + 1e-12) << "the error falls with the square of the steps";
    EXPECT_GT(largest_number(attribution_patching(model_, {.sweep = options}).values() - exact),
              1e-3 * largest_number(exact));
  }
}

/// Masked keys have no attention on the way between two patterns either.
TEST_F(AttributionPatchingOf, IntegrationOverPatternsLeavesMaskedKeysOut) {
  SweepOptions options = sweep_over(act::pattern, {Axis::layer});
  options.from = PatchSource::value(0.3);
  const at::Tensor exact = effects(options);
  const AttributionPatchingOptions many{.sweep = options,
                                        .integration = {.over = IntegrateOver::activations, .steps = 64}};
  EXPECT_GT(largest_number(exact), 1e-3);
  EXPECT_LE(largest_number(attribution_patching(model_, many).values() - exact),
            1e-3 * largest_number(exact));
}

/// Over inputs the numbers of the whole stream before the first block add up to what changes between the
/// runs.
TEST_F(AttributionPatchingOf, IntegrationOverInputsIsComplete) {
  const SweepOptions options = sweep_over(act::resid_pre, {{Axis::layer, {0}}, Axis::pos});
  const double whole =
      (scores(model_, clean_, options.metric).values() - scores(model_, corrupted_, options.metric).values())
          .item<double>();
  const auto total = [&](StepRule rule) {
    const AttributionPatchingOptions many{
        .sweep = options, .integration = {.over = IntegrateOver::inputs, .steps = 200, .rule = rule}};
    return attribution_patching(model_, many).values().nansum().item<double>();
  };
  EXPECT_NEAR(total(StepRule::midpoint), whole, 1e-4 * std::abs(whole));
  EXPECT_NEAR((total(StepRule::left) + total(StepRule::right)) / 2, whole, 1e-3 * std::abs(whole));
  EXPECT_GT(std::abs(total(StepRule::left) - total(StepRule::right)), 1e-3 * std::abs(whole));
}

TEST_F(AttributionPatchingOf, StretchesOfLayersChangeNothing) {
  for (const std::int64_t layers : {1, 2, 3, 4, 9}) {
    for (const SweptSite& site : {SweptSite(act::z), SweptSite(act::resid_post), SweptSite(act::resid_pre)}) {
      AttributionPatchingOptions options{.sweep = sweep_over(site, {Axis::layer, Axis::pos})};
      const at::Tensor whole = attribution_patching(model_, options).values();
      options.layers_at_once = layers;
      EXPECT_LE(largest_number(attribution_patching(model_, options).values() - whole),
                1e-12 * largest_number(whole))
          << layers;
    }
  }
}

TEST_F(AttributionPatchingOf, RowsArePaddedAndTheirOwn) {
  const at::Tensor mask = at::ones({3, 6}, at::kLong);
  mask[0].slice(0, 4) = 0;     // padded at the end
  mask[2].slice(0, 0, 1) = 0;  // and in front
  const Input into{at::cat({corrupted_, random_row(6, 11, 5), random_row(6, 11, 6)}),
                   {.attention_mask = mask}};
  const Input clean{at::cat({clean_, random_row(6, 11, 7), random_row(6, 11, 8)}), {.attention_mask = mask}};
  const auto from = model_.run_with_cache(clean, act::everything).cache;
  for (const std::int64_t tokens : {1, 12, 1024}) {
    const Grid made =
        attribution_patching(model_, {.sweep = {.site = act::z,
                                                .over = {Axis::layer, Axis::pos},
                                                .from = from,
                                                .into = into,
                                                .metric = logit_difference(Answers::by_row({1, 2, 3}), 4),
                                                .tokens_per_run = tokens}});
    ASSERT_EQ(made.values().sizes(), at::IntArrayRef({3, 4, 6}));
    EXPECT_TRUE(made.values().isnan().equal(mask.eq(0).unsqueeze(1).expand({3, 4, 6})));
    for (std::int64_t row = 0; row < 3; ++row) {
      const at::Tensor real = mask[row].nonzero().flatten();
      const auto without_padding = [&](const Input& input) {
        return input.tokens[row].index_select(0, real).unsqueeze(0);
      };
      const Grid alone = attribution_patching(
          model_, {.sweep = {.site = act::z,
                             .over = {Axis::layer, Axis::pos},
                             .from = model_.run_with_cache(without_padding(clean), act::everything).cache,
                             .into = without_padding(into),
                             .metric = logit_difference(row + 1, 4)}});
      EXPECT_LE(largest_number(made.values()[row].index_select(1, real) - alone.values()), 1e-12) << row;
    }
  }
}

/// Metrics of activations have gradients, too.
TEST_F(AttributionPatchingOf, MetricsMayReadActivations) {
  const Metric looks = attention(act::pattern(3).head(1), 5, 2);
  const Metric along = projection(act::resid_post(2), at::ones({16}, at::kDouble), 4);
  for (const Metric& metric : {looks, along}) {
    SweepOptions options = sweep_over(act::resid_pre, {Axis::layer, Axis::pos}, metric);
    const auto here = model_.run_with_cache(corrupted_, act::everything).cache;
    const auto report = attribution_patching_report(model_, {.sweep = options});
    options.from = PatchSource::mixture(PatchSource(here), PatchSource(from_), 1e-4);
    const at::Tensor slopes = effects(options) / 1e-4;
    EXPECT_GT(largest_number(slopes), 1e-5);
    EXPECT_LE(largest_number(report.grid.values() - slopes), 2e-3 * largest_number(slopes)) << metric.name();
    EXPECT_NEAR(report.unpatched.values().item<double>(), metric.score(model_, corrupted_).item<double>(),
                1e-12);
  }
}

TEST_F(AttributionPatchingOf, HoldsHooksAndEditsOfTheSweep) {
  const Edit edit = zero(act::z(1).head(2));
  AttributionPatchingOptions options{.sweep = sweep_over(act::resid_pre, {Axis::layer, Axis::pos})};
  const at::Tensor plain = attribution_patching(model_, options).values();
  options.sweep.edits = {edit};
  const at::Tensor edited = attribution_patching(model_, options).values();
  EXPECT_GT(largest_number(edited - plain), 1e-4);
  options.sweep.edits.clear();
  options.sweep.hooks = {Hook(act::z(1), [](const at::Tensor& z) {
    const at::Tensor changed = z.clone();
    changed.select(2, 2).zero_();
    return changed;
  })};
  // The gradient of the hook is that of a copy in which the head is zero.
  EXPECT_LE(largest_number(attribution_patching(model_, options).values() - edited), 1e-12);
}

TEST_F(AttributionPatchingOf, ChecksSomeCellsExactly) {
  const SweepOptions options = sweep_over(act::z, {Axis::layer, Axis::head});
  const at::Tensor exact = effects(options);
  const auto report = attribution_patching_report(model_, {.sweep = options, .check = 5, .seed = 3});
  ASSERT_TRUE(report.check.has_value());
  ASSERT_EQ(report.check->cells.size(), 10U);
  std::set<std::vector<std::int64_t>> seen;
  const auto top = report.grid.largest(5, LargestBy::size);
  for (std::size_t i = 0; i < 10; ++i) {
    const CheckedCell& cell = report.check->cells[i];
    EXPECT_TRUE(seen.insert(cell.index).second) << "a cell occurs twice";
    EXPECT_EQ(cell.drawn, i >= 5);
    if (i < 5) {
      EXPECT_EQ(cell.index, top[i].index);
    }
    EXPECT_EQ(cell.estimate, report.grid.at(cell.index));
    EXPECT_NEAR(cell.effect, exact[cell.index[0]][cell.index[1]].item<double>(), 1e-10);
  }
  EXPECT_GT(report.check->correlation, 0.5);
  EXPECT_LE(report.check->correlation, 1.0 + 1e-12);
  const auto all = attribution_patching_report(model_, {.sweep = options, .check = 100});
  EXPECT_EQ(all.check->cells.size(), 16U) << "no more than there are";
  EXPECT_EQ(
      attribution_patching_report(model_, {.sweep = options, .check = 5, .seed = 3}).check->missed.size(),
      report.check->missed.size());
}

/// A saturated softmax hides a query from gradients, and not from the correction.
TEST_F(AttributionPatchingOf, CorrectionSeesWhatSaturationHides) {
  const Edit strong = scale(act::q(1), 60.0);
  SweepOptions options = sweep_over(act::q, {{Axis::layer, {1}}, Axis::head});
  options.edits = {strong};
  const at::Tensor exact = effects(options);
  const at::Tensor plain = attribution_patching(model_, {.sweep = options}).values();
  const at::Tensor corrected = attribution_patching(model_, {.sweep = options, .query_key = true}).values();
  EXPECT_LT(largest_number(corrected - exact), largest_number(plain - exact));
}

/// GradDrop as its paper has it: for each layer a gradient without what that layer adds; nodes of that layer
/// have none, and the stream lies in no layer.
TEST_F(AttributionPatchingOf, ALayerThatIsLeftOutGivesNothingToItsOwnNodes) {
  const std::vector<Site> on_stream{Site::resid_pre, Site::resid_mid, Site::resid_post, Site::ln2_normalized};
  for (const NormPlace norm_place : {NormPlace::pre, NormPlace::post, NormPlace::stream}) {
    ModelConfig config = four_layers();
    config.norm_place = norm_place;
    if (norm_place != NormPlace::pre) config.final_norm = NormKind::none;
    const std::int64_t layers = config.n_layers;
    const auto model = random_model(config);
    const auto from = model.run_with_cache(clean_, act::everything).cache;
    const auto without = [&](std::int32_t left_out, const Address& place) {
      const Hook drop(
          act::attn_out(left_out) | act::mlp_out(left_out), [](const at::Tensor& g) { return g * 0.0; },
          HookDirection::backward);
      const auto run =
          model.run(corrupted_, {.hooks = {drop},
                                 .capture = Selection(place.name()),
                                 .gradients = GradientRequest{Selection(place.name()) | act::resid_pre(0),
                                                              logit_difference(3, 7)}});
      return std::abs(((from[place] - run.cache[place]) * run.gradients[place]).sum().item<double>());
    };
    std::vector<act::BlockSite> sites{act::z,         act::mlp_out,   act::attn_out,  act::post,
                                      act::resid_pre, act::resid_mid, act::resid_post};
    // Apart from the stream, it is what the MLP reads.
    if (norm_place != NormPlace::pre) sites.push_back(act::BlockSite{Site::ln2_normalized});
    for (const act::BlockSite& site : sites) {
      const bool in_a_layer = std::ranges::find(on_stream, site.site) == on_stream.end();
      SweepOptions sweep = sweep_over(site, {Axis::layer});
      sweep.from = from;
      const Grid made = attribution_patching(model, {.sweep = sweep, .drop_layers = true});
      for (std::int32_t layer = 0; layer < layers; ++layer) {
        const Address place(ActivationName{.site = site.site, .stack = Stack::blocks, .layer = layer});
        double sum = 0;
        for (std::int32_t left_out = 0; left_out < layers; ++left_out) {
          if (!in_a_layer || left_out != layer) sum += without(left_out, place);
        }
        EXPECT_NEAR(made.at({layer}), sum / static_cast<double>(in_a_layer ? layers - 1 : layers), 1e-10)
            << place.to_string();
      }
    }
  }
}

/// If one norm spans all heads, a head's query is patched alone, and changes the patterns of all heads.
TEST(AttributionPatching, CorrectsOneHeadAtATimeWhereANormSpansThemAll) {
  ModelConfig config = two_layer_config();
  config.norm = config.final_norm = NormKind::rms_norm;
  config.qk_norm = QkNorm{.span = QkNorm::whole_projection};
  const std::vector<Edit> standing{scale(act::q(1), 0.5), scale(act::k(0).head(1), 2.0),
                                   scale(act::attn_scores(0), 0.5)};
  for (const std::int64_t kv_heads : {4, 2}) {
    config.n_kv_heads = kv_heads;
    const auto model = random_model(config);
    const at::Tensor clean = random_row(6, 11, 1), corrupted = random_row(6, 11, 2);
    const auto from = model.run_with_cache(clean, act::everything).cache;
    for (const std::vector<Edit>& edits : {std::vector<Edit>(), standing}) {
      const auto run =
          model.run(corrupted, {.edits = edits,
                                .capture = act::pattern,
                                .gradients = GradientRequest{act::pattern, logit_difference(3, 7)}});
      // The change of the metric under other patterns, by their gradient.
      const auto through = [&](const Address& place) {
        std::vector<Edit> all = edits;
        all.push_back(replace(place, from));
        const Address pattern = act::pattern(place.name().layer);
        const auto patched = model.run(corrupted, {.edits = all, .capture = act::pattern});
        return ((patched.cache[pattern] - run.cache[pattern]) * run.gradients[pattern]).sum().item<double>();
      };
      for (const SweptSite& site : {SweptSite(act::q), SweptSite(act::k)}) {
        const auto estimated = [&](std::vector<SweptAxis> over) {
          return attribution_patching(model, {.sweep = {.site = site,
                                                        .over = std::move(over),
                                                        .from = from,
                                                        .into = corrupted,
                                                        .metric = logit_difference(3, 7),
                                                        .edits = edits},
                                              .query_key = true});
        };
        const Grid heads = estimated({Axis::layer, Axis::head}),
                   columns = estimated({Axis::layer, Axis::head, Axis::pos}),
                   together = estimated({Axis::layer});
        for (std::int32_t layer = 0; layer < 2; ++layer) {
          const Address whole(ActivationName{.site = site.site, .stack = Stack::blocks, .layer = layer});
          for (std::int64_t head = 0; head < (site.site == Site::q ? 4 : kv_heads); ++head) {
            EXPECT_NEAR(heads.at({layer, head}), through(whole.head(head)), 1e-10);
            EXPECT_NEAR(columns.at({layer, head, 3}), through(whole.head(head).pos(3)), 1e-10);
          }
          EXPECT_NEAR(together.at({layer}), through(whole), 1e-10)
              << "a cell of all heads patches them together";
        }
      }
    }
  }
}

/// Keys under a softmax that is saturated, with a sink and without: probabilities are 0 and 1 to the last
/// bit, and another key may take all of them.
TEST(AttributionPatching, CorrectsKeysOfASaturatedSoftmax) {
  const at::Tensor clean = random_row(6, 11, 1), corrupted = random_row(6, 11, 2);
  for (const bool sinks : {false, true}) {
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
      ModelConfig config = two_layer_config();
      config.attention_sinks = sinks;
      config.dtype = dtype;
      const auto model = random_model(config);
      const auto from = model.run_with_cache(clean, act::everything).cache;
      for (const double factor : {30.0, 300.0, 1e4, 1e6}) {
        const std::vector<Edit> edits{scale(act::q, factor)};
        const auto run =
            model.run(corrupted, {.edits = edits,
                                  .capture = act::pattern,
                                  .gradients = GradientRequest{act::pattern, logit_difference(3, 7)}});
        const Grid made = attribution_patching(model, {.sweep = {.site = act::k,
                                                                 .over = {Axis::layer, Axis::head, Axis::pos},
                                                                 .from = from,
                                                                 .into = corrupted,
                                                                 .metric = logit_difference(3, 7),
                                                                 .edits = edits},
                                                       .query_key = true});
        double moved = 0;
        for (std::int32_t layer = 0; layer < 2; ++layer) {
          for (std::int64_t head = 0; head < made.values().size(1); ++head) {
            for (std::int64_t pos = 0; pos < 6; ++pos) {
              std::vector<Edit> all = edits;
              all.push_back(replace(act::k(layer).head(head).pos(pos), from));
              const Address pattern = act::pattern(layer);
              const auto patched = model.run(corrupted, {.edits = all, .capture = act::pattern});
              const double expected = ((patched.cache[pattern] - run.cache[pattern]) * run.gradients[pattern])
                                          .sum()
                                          .item<double>();
              EXPECT_NEAR(made.at({layer, head, pos}), expected, dtype == at::kDouble ? 1e-10 : 1e-3)
                  << "factor " << factor << ", layer " << layer << ", head " << head << ", pos " << pos;
              moved = std::max(moved, std::abs(expected));
            }
          }
        }
        EXPECT_GT(moved, 0.01);
      }
    }
  }
}

/// Keys that later layers share, and queries of such a layer.
TEST(AttributionPatching, FollowsSharedKeysIntoEveryLayerThatAttendsWithThem) {
  ModelConfig config = four_layers();
  config.shared_keys = SharedKeys{.layers = 2, .d_mlp = config.d_mlp};
  const auto model = random_model(config);
  const at::Tensor clean = random_row(6, 11, 1), corrupted = random_row(6, 11, 2);
  const auto from = model.run_with_cache(clean, act::everything).cache;
  const auto run = model.run(corrupted, {.capture = act::everything,
                                         .gradients = GradientRequest{act::pattern, logit_difference(3, 7)}});
  const auto through = [&](const Address& place, const std::vector<std::int32_t>& layers) {
    std::vector<Edit> edits{replace(place, from)};
    for (const std::int32_t layer : layers) edits.push_back(replace(act::resid_pre(layer), run.cache));
    const auto patched = model.run(corrupted, {.edits = edits, .capture = act::pattern});
    double sum = 0;
    for (const std::int32_t layer : layers) {
      const Address pattern = act::pattern(layer);
      sum += ((patched.cache[pattern] - run.cache[pattern]) * run.gradients[pattern]).sum().item<double>();
    }
    return sum;
  };
  const auto estimated = [&](SweptSite site, std::vector<SweptPlace> layers) {
    return attribution_patching(model, {.sweep = {.site = site,
                                                  .over = {{Axis::layer, std::move(layers)}, Axis::head},
                                                  .from = from,
                                                  .into = corrupted,
                                                  .metric = logit_difference(3, 7)},
                                        .query_key = true});
  };
  const Grid keys = estimated(act::k, {0, 1}), queries = estimated(act::q, {2, 3});
  for (std::int64_t head = 0; head < config.n_heads; ++head) {
    EXPECT_NEAR(keys.at({0, head}), through(act::k(0).head(head), {0}), 1e-10);
    EXPECT_NEAR(keys.at({1, head}), through(act::k(1).head(head), {1, 2, 3}), 1e-10);
    EXPECT_NEAR(queries.at({0, head}), through(act::q(2).head(head), {2}), 1e-10);
    EXPECT_NEAR(queries.at({1, head}), through(act::q(3).head(head), {3}), 1e-10);
  }
}

TEST_F(AttributionPatchingOf, CanBeEnded) {
  AttributionPatchingOptions options{.sweep = sweep_over(act::z, {Axis::layer, Axis::head})};
  options.sweep.into = at::cat({corrupted_, clean_});
  options.sweep.from = model_.run_with_cache(at::cat({clean_, corrupted_}), act::z).cache;
  options.sweep.tokens_per_run = 1;
  std::int64_t calls = 0;
  options.sweep.progress = [&](const SweepProgress& progress) {
    ++calls;
    EXPECT_EQ(progress.total, 2) << "a gradient for each row";
    return false;
  };
  const auto report = attribution_patching_report(model_, options);
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(report.complete);
  EXPECT_EQ(report.rows, 1);
  EXPECT_FALSE(report.grid.slice("row", 0).values().isnan().any().item<bool>());
  EXPECT_TRUE(report.grid.slice("row", 1).values().isnan().all().item<bool>());
}

/// Steps are gradients of a row, and checked cells: the work is ended between any two of them, and no row is
/// half an estimate.
TEST_F(AttributionPatchingOf, IsCountedAndEndedBetweenItsRuns) {
  AttributionPatchingOptions options{.sweep = sweep_over(act::z, {Axis::layer, Axis::head}),
                                     .integration = {.over = IntegrateOver::inputs, .steps = 5},
                                     .check = 3};
  options.sweep.into = at::cat({corrupted_, clean_});
  options.sweep.from = model_.run_with_cache(at::cat({clean_, corrupted_}), act::everything).cache;
  options.sweep.tokens_per_run = 6;  // a row
  std::vector<std::int64_t> told;
  const auto until = [&](std::int64_t last) {
    told.clear();
    options.sweep.progress = [&told, last](const SweepProgress& now) {
      told.push_back(now.done);
      EXPECT_EQ(now.total, 2 * 5 + 2 * 3);
      return now.done < last;
    };
    return attribution_patching_report(model_, options);
  };
  const auto whole = until(100);
  EXPECT_EQ(told.back(), 16);
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_GT(std::ranges::count_if(told, [](auto done) { return done > 10; }), 1) << "checks are told, too";
  EXPECT_TRUE(whole.complete);
  EXPECT_TRUE(whole.check->complete);

  const auto first = until(7);
  EXPECT_EQ(told, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(first.gradient_runs, 7);
  EXPECT_EQ(first.rows, 1);
  EXPECT_FALSE(first.complete);
  EXPECT_FALSE(first.check);
  EXPECT_TRUE(first.grid.slice("row", 0).values().equal(whole.grid.slice("row", 0).values()));
  EXPECT_TRUE(first.grid.slice("row", 1).values().isnan().all().item<bool>());

  const auto estimated = until(10);
  EXPECT_TRUE(estimated.grid.values().equal(whole.grid.values()));
  EXPECT_FALSE(estimated.complete) << "nothing was checked";
  EXPECT_FALSE(estimated.check);

  const auto checked = until(11);
  EXPECT_FALSE(checked.complete);
  ASSERT_TRUE(checked.check);
  EXPECT_FALSE(checked.check->complete);
  EXPECT_TRUE(std::isnan(checked.check->correlation));
  EXPECT_TRUE(checked.check->missed.empty());
  ASSERT_EQ(checked.check->cells.size(), 6u);
  std::size_t reached = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    const double effect = checked.check->cells[i].effect;
    if (std::isnan(effect)) continue;
    ++reached;
    EXPECT_EQ(effect, whole.check->cells[i].effect);
  }
  EXPECT_EQ(reached, static_cast<std::size_t>(told.back() - 10));
}

TEST_F(AttributionPatchingOf, TakesPresets) {
  const AttributionPatchingOptions options{
      .sweep = {.from = from_, .into = corrupted_, .metric = logit_difference(3, 7)}};
  const Grid every = attribution_patching(model_, patching_preset("attn_head_all_pos_every"), options);
  ASSERT_EQ(every.values().sizes(), at::IntArrayRef({5, 4, 4}));
  const Grid z = attribution_patching(model_, {.sweep = sweep_over(act::z, {Axis::layer, Axis::head})});
  EXPECT_TRUE(every.slice("site", "z").values().allclose(z.values()));
}

/// A row of the table of docs/analysis/attribution-patching.md: an option, and the correlation of its
/// estimates with exact patching at each kind of place of the shipped model; NaN where it has none.
struct Foretold {
  const char* name;
  AttributionPatchingOptions options;
  std::array<double, 5> correlations;  ///< heads' z, MLPs, stream by position, queries, keys
};

TEST(AttributionPatching, ForetellsThePatchingOfTheShippedModel) {
  const std::filesystem::path root = HOOKED_SOURCE_DIR;
  const auto model = HookedTransformer::load((root / "examples/toy_model").string());
  const auto pairs = PromptPairs::load(model, root / "examples/pairs.jsonl");
  const auto from = model.run_with_cache(pairs.corrupted(), act::defaults).cache;
  const auto places = [&](SweptSite site, Axis axis) {
    return SweepOptions{.site = site,
                        .over = axis == Axis::layer ? std::vector<SweptAxis>{Axis::layer}
                                                    : std::vector<SweptAxis>{Axis::layer, axis},
                        .from = from,
                        .into = pairs.clean(),
                        .metric = logit_difference(pairs.answers(), pairs.against())};
  };
  const std::array<SweepOptions, 5> columns{places(act::z, Axis::head), places(act::mlp_out, Axis::layer),
                                            places(act::resid_pre, Axis::pos), places(act::q, Axis::head),
                                            places(act::k, Axis::head)};
  std::array<at::Tensor, 5> effects;  // of exact patching, in one row
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const SweepReport exact = sweep_report(model, columns[i]);
    const auto scores = exact.grid.values();  // [row, ..]
    effects[i] = (scores.flatten(1) - exact.unpatched.values().view({-1, 1})).flatten();
  }
  const double none = std::numeric_limits<double>::quiet_NaN();
  const std::array<Foretold, 6> rows{{
      {"one gradient", {}, {0.994, 0.994, 0.888, 0.769, 0.973}},
      {"norms held", {.hold = {.norms = true}}, {0.996, 0.998, 0.998, 0.798, 0.739}},
      {"integrated over inputs",
       {.integration = {.over = IntegrateOver::inputs, .steps = 8}},
       {0.997, 0.952, 0.999, 0.987, -0.714}},
      {"integrated over activations",
       {.integration = {.over = IntegrateOver::activations, .steps = 8}},
       {0.998, 1.000, 1.000, 0.999, 1.000}},
      {"query_key", {.query_key = true}, {none, none, none, 0.999, 0.999}},
      {"drop_layers", {.drop_layers = true}, {0.935, 0.951, 0.764, 0.766, 0.888}},
  }};
  for (const Foretold& row : rows) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (std::isnan(row.correlations[i])) continue;
      auto options = row.options;
      options.sweep = columns[i];
      const at::Tensor made = attribution_patching(model, options).values().flatten();
      const at::Tensor effect = row.options.drop_layers ? effects[i].abs() : effects[i];
      const at::Tensor there = made.isfinite().logical_and(effect.isfinite());
      const at::Tensor both = at::stack({made.masked_select(there), effect.masked_select(there)});
      EXPECT_NEAR(at::corrcoef(both)[0][1].item<double>(), row.correlations[i], 0.002)
          << row.name << ", column " << i;
    }
  }
}

TEST_F(AttributionPatchingOf, RefusesWhatHasNoMeaning) {
  const auto text = [&](const AttributionPatchingOptions& options) {
    return text_thrown_by<HookError>([&] { attribution_patching(model_, options); });
  };
  AttributionPatchingOptions options{.sweep = sweep_over(act::z, {Axis::layer}, rank(3))};
  EXPECT_THAT(text(options), HasSubstr("moves in steps"));
  options.sweep = sweep_over(act::z, {Axis::layer});
  options.query_key = true;
  EXPECT_THAT(text(options), HasSubstr("site q or k"));
  options = {.sweep = sweep_over(act::k, {Axis::layer, Axis::pos}), .query_key = true};
  options.sweep.edits = {scale(act::pattern(1), 0.5)};
  EXPECT_THAT(text(options), HasSubstr("expected none at the pattern"));
  options = {.sweep = sweep_over(act::attn_scores, {Axis::layer})};
  options.sweep.edits = {set(act::attn_scores(1), 0.5)};
  EXPECT_THAT(text(options), HasSubstr("is infinite, and the run's own value is not"));
  options = {.sweep = sweep_over(act::z, {Axis::layer}), .layers_at_once = 2};
  options.sweep.edits = {zero(act::z(1))};
  EXPECT_THAT(text(options), HasSubstr("with hooks or edits"));
  options = {.sweep = sweep_over(act::z, {Axis::layer}),
             .integration = {.over = IntegrateOver::inputs, .steps = 0}};
  EXPECT_THAT(text(options), HasSubstr("expected at least 1"));
  options = {.sweep = sweep_over(act::z, {Axis::layer})};
  options.sweep.partial = "estimates.safetensors";
  EXPECT_THAT(text(options), HasSubstr("expected no `partial`"));
  options = {.sweep = sweep_over(act::z, {Axis::layer})};
  options.sweep.site = std::nullopt;
  options.sweep.over.clear();
  options.sweep.table = {{act::tokens}};
  EXPECT_THAT(text(options), HasSubstr("ids have no gradient"));
  const auto one = random_model([] {
    ModelConfig config = two_layer_config();
    config.n_layers = 1;
    return config;
  }());
  const AttributionPatchingOptions alone{.sweep = {.site = act::z,
                                                   .over = {Axis::layer},
                                                   .from = one.run_with_cache(clean_, act::z).cache,
                                                   .into = corrupted_,
                                                   .metric = logit(3)},
                                         .drop_layers = true};
  EXPECT_THAT(text_thrown_by<HookError>([&] { attribution_patching(one, alone); }), HasSubstr("one layer"));
}

}  // namespace
}  // namespace hooked::attribution_patching_test
