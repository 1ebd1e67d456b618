#include "hooked/analysis/attribution.h"

#include <filesystem>

#include "hooked/analysis/logit_lens.h"
#include "hooked/analysis/metric.h"
#include "hooked/analysis/norm_geometry.h"
#include "tests/support/process_memory.h"
#include "tests/support/tiny_model.h"

namespace hooked::attribution_test {
namespace {

constexpr double kFloat64Tolerance = 1e-10;

/// The sum of the parts at a row and a position of the grid, without the remainder.
double sum_without_remainder(const Grid& grid, std::int64_t row, std::int64_t position) {
  const auto remainder = grid.slice("part", "remainder");
  return (grid.values().sum(1)[row][position] - remainder.values()[row][position]).item<double>();
}

/// To the logits before any soft cap.
void expect_rows_add_up(const HookedTransformer& model, Grain grain) {
  const auto vocab = model.config().d_vocab;
  const auto tokens = at::cat({random_row(6, vocab, 4), random_row(6, vocab, 5)});
  const auto run = model.run_with_cache(tokens);
  const auto all_logits = run.cache[act::unembed_out];
  const auto answers = Answers::by_row({3, 4});
  const auto difference = direct_logit_attribution(
      model, run.cache, {.answer = answers, .against = 5, .grain = grain, .positions = {-1, 2}});
  const auto alone =
      direct_logit_attribution(model, run.cache, {.answer = 3, .grain = grain, .positions = {}});
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t i = 0; i < 2; ++i) {
      const auto logits = all_logits[row][i == 0 ? 5 : 2];
      EXPECT_NEAR(sum_without_remainder(difference, row, i), (logits[3 + row] - logits[5]).item<double>(),
                  kFloat64Tolerance);
    }
    for (std::int64_t position = 0; position < 6; ++position) {
      EXPECT_NEAR(sum_without_remainder(alone, row, position), all_logits[row][position][3].item<double>(),
                  kFloat64Tolerance);
    }
  }
}

struct Variant {
  const char* name;
  NormKind norm;
  WeightProcessing processing;
};

/// Caches of parts of one sequence read like the cache of one run, joined or not, as far as they go.
TEST(Attribution, OfStretchesIsThatOfOneRun) {
  const auto model = random_model(two_layer_config());
  const auto tokens = at::cat({random_row(7, 11, 4), random_row(7, 11, 5)});
  const auto whole = model.run_with_cache(tokens).cache;
  const auto first = model.run(tokens.narrow(1, 0, 3), {.capture = act::defaults, .keep_prefix = true});
  const Input behind(tokens.narrow(1, 3, 4), {.prefix = first.prefix});
  const auto rest = model.run(behind, {.capture = act::defaults}).cache;
  const auto joined = ActivationCache::join({first.cache, rest});
  const auto some =
      model.run(behind, {.capture = act::defaults, .keep = {.positions = std::vector<std::int64_t>{6, 4}}})
          .cache;
  const auto expect_same = [&](const ActivationCache& cache, const std::vector<Position>& positions) {
    for (const Grain grain : {Grain::layer, Grain::head, Grain::neuron}) {
      const AttributionOptions options{.answer = 3, .against = 5, .grain = grain, .positions = positions};
      const auto got = direct_logit_attribution(model, cache, options).values();
      const auto expected = direct_logit_attribution(model, whole, options).values();
      EXPECT_LT((got - expected).abs().max().item<double>(), kFloat64Tolerance);
    }
    const LogitLensOptions lens{.positions = positions, .tokens = {3, 5}};
    EXPECT_LT(
        (logit_lens(model, cache, lens).logits.values() - logit_lens(model, whole, lens).logits.values())
            .abs()
            .max()
            .item<double>(),
        kFloat64Tolerance);
  };
  expect_same(joined, {});
  expect_same(joined, {Position::last(), 1, 4, -2});
  expect_same(rest, {Position::last(), 3, -2});
  expect_same(some, {Position::last(), 4});
  EXPECT_THAT(text_thrown_by<HookError>(
                  [&] { direct_logit_attribution(model, some, {.answer = 3, .positions = {5}}); }),
              HasSubstr("position 5 of row 0 was not kept; expected one of those that were (6, 4)"));
  // Values match the keys of a pattern one by one: all must exist, in their order.
  const std::vector<std::int64_t> backwards{6, 5, 4, 3, 2, 1, 0};
  const auto turned = model.run(tokens, {.capture = act::defaults, .keep = {.positions = backwards}}).cache;
  expect_same(turned, {Position::last(), 2});
  EXPECT_THROW(source_attribution(model, turned, {.answer = 3}), HookError);
}

class AttributionOf : public testing::TestWithParam<std::tuple<Variant, Grain>> {};

TEST_P(AttributionOf, RowsAddUpToTheLogits) {
  const auto& [variant, grain] = GetParam();
  auto config = two_layer_config();
  config.norm = config.final_norm = variant.norm;
  expect_rows_add_up(random_model(config, variant.processing), grain);
}

INSTANTIATE_TEST_SUITE_P(
    Norms, AttributionOf,
    testing::Combine(testing::Values(Variant{"layer_norm", NormKind::layer_norm, WeightProcessing::none()},
                                     Variant{"layer_norm_folded", NormKind::layer_norm, {}},
                                     Variant{"rms_norm", NormKind::rms_norm, WeightProcessing::none()},
                                     Variant{"rms_norm_folded", NormKind::rms_norm, {}},
                                     Variant{"no_norm", NormKind::none, WeightProcessing::none()}),
                     testing::Values(Grain::layer, Grain::head)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param).name) +
             (std::get<1>(info.param) == Grain::head ? "_head" : "_layer");
    });

class AttributionOfRandomConfig : public testing::TestWithParam<std::uint64_t> {};

TEST_P(AttributionOfRandomConfig, RowsAddUpOrAreRefused) {
  const auto config = random_double_config(GetParam());
  const auto model = random_model(config);
  for (const auto grain : {Grain::layer, Grain::head, Grain::expert, Grain::neuron}) {
    if (!config.has_mlm_head()) {
      expect_rows_add_up(model, grain);
    } else {
      const auto cache = model.run_with_cache(random_row(6, config.d_vocab, 4)).cache;
      EXPECT_THROW(direct_logit_attribution(model, cache, {.answer = 3, .grain = grain}), HookError);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, AttributionOfRandomConfig, testing::Range<std::uint64_t>(0, 40));

TEST(Attribution, NamesItsPartsAndTheirActivations) {
  const auto model = random_model(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
  const auto grid = direct_logit_attribution(model, cache, {.answer = 1});
  EXPECT_EQ(grid.axes()[0].name, "row");
  EXPECT_EQ(grid.axes()[2].labels, std::vector<std::string>({"last"}));
  const auto parts = grid.axis("part");
  EXPECT_THAT(parts.labels, ElementsAre("embed", "pos_embed", "attn 0", "mlp 0", "attn 1", "mlp 1",
                                        "remainder", "final norm bias", "unembed bias"));
  EXPECT_EQ(parts.places[4], Address("blocks.1.hook_attn_out"));
  EXPECT_EQ(parts.places[6], std::nullopt);
  const auto by_head =
      direct_logit_attribution(model, cache, {.answer = 1, .grain = Grain::head}).axis("part");
  EXPECT_EQ(by_head.labels[2], "head 0.0");
  EXPECT_EQ(by_head.labels[6], "attn bias 0");
  EXPECT_EQ(by_head.places[5], Address("blocks.0.attn.hook_result[head=3]"));
}

// A part's address is right: the d_model numbers found there give the part's logits.
TEST(Attribution, PlacesAreWhatWasAdded) {
  const auto model = random_model(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 4), act::everything).cache;
  const auto grid = direct_logit_attribution(model, cache, {.answer = 1, .against = 2, .grain = Grain::head});
  const auto scale = cache[Address(act::ln_final_scale).row(0).pos(-1)];
  const auto weights = model.state_dict();
  const auto direction = weights.at("unembed.W_U").select(1, 1) - weights.at("unembed.W_U").select(1, 2);
  int compared = 0;
  for (const auto& cell : grid.largest(100)) {
    if (!cell.place) continue;
    const auto x = cache[cell.place->row(0)];  // [d_model] at the last position
    const auto logits = ((x - x.mean()) / scale * weights.at("ln_final.w")).dot(direction).item<double>();
    EXPECT_NEAR(cell.value, logits, kFloat64Tolerance) << cell.labels[1];
    ++compared;
  }
  EXPECT_EQ(compared, 2 + 2 * 5);
}

TEST(Attribution, TheRemainderIsWhatAnEditPutIntoTheStream) {
  const auto model = random_model(two_layer_config());
  const auto tokens = random_row(6, 11, 4);
  const AttributionOptions options{.answer = 3, .against = 5, .grain = Grain::head};
  const auto unedited = model.run_with_cache(tokens);
  EXPECT_NEAR(direct_logit_attribution(model, unedited.cache, options).slice("part", "remainder").at({0, 0}),
              0, kFloat64Tolerance);
  const auto edited = model.run_with_cache(tokens, act::defaults, {.edits = {scale(act::attn_out(0), 3.0)}});
  const auto grid = direct_logit_attribution(model, edited.cache, options);
  const double whole = (edited.logits()[0][-1][3] - edited.logits()[0][-1][5]).item<double>();
  EXPECT_NEAR(grid.values().sum().item<double>(), whole, kFloat64Tolerance);
  // Two thirds of the edited output are not what the heads wrote.
  const auto layer = direct_logit_attribution(model, edited.cache, {.answer = 3, .against = 5});
  EXPECT_NEAR(grid.slice("part", "remainder").at({0, 0}), layer.slice("part", "attn 0").at({0, 0}) * 2 / 3,
              kFloat64Tolerance);
}

// Also for changes after the stream, by the kept activation that is nearest to the logit.
TEST(Attribution, TheRemainderIsWhatAnEditPutBehindTheStream) {
  auto config = two_layer_config();
  config.unembedding->scale = 0.5;
  config.unembedding->in_scale = 2.0;
  const auto model = random_model(config);
  const auto tokens = at::cat({random_row(6, 11, 4), random_row(6, 11, 5)});
  const AttributionOptions options{
      .answer = Answers::by_row({3, 4}), .against = 5, .grain = Grain::neuron, .positions = {-1, 2}};
  const auto plain = direct_logit_attribution(model, model.run_with_cache(tokens).cache, options);
  const auto without = [](const std::vector<Site>& sites) {
    return Selection::matching([sites](const ActivationName& name) {
      return !row(name.site).wide && std::ranges::find(sites, name.site) == sites.end();
    });
  };
  const Selection all = act::defaults, no_logits = without({Site::unembed_out}),
                  no_reading = without({Site::unembed_out, Site::unembed_in});
  struct Case {
    Edit edit;
    Selection kept;
  };
  const Edit of_norm = add(act::ln_final_normalized, 0.25), of_read = scale(act::unembed_in, 1.5),
             of_logits = add(Address(act::unembed_out).at(Axis::vocab_out, 3), 2.0);
  for (const auto& [edit, kept] : {Case{of_norm, all}, Case{of_norm, no_logits}, Case{of_norm, no_reading},
                                   Case{of_read, all}, Case{of_read, no_logits}, Case{of_logits, all}}) {
    const auto edited = model.run_with_cache(tokens, kept, {.edits = {edit}});
    const auto grid = direct_logit_attribution(model, edited.cache, options);
    double largest = 0;
    for (std::int64_t row = 0; row < 2; ++row) {
      for (std::int64_t i = 0; i < 2; ++i) {
        const auto logits = edited.logits()[row][i == 0 ? 5 : 2];
        const double whole = (logits[3 + row] - logits[5]).item<double>();
        EXPECT_NEAR(grid.values().sum(1)[row][i].item<double>(), whole, kFloat64Tolerance);
        largest = std::max(largest, std::abs(grid.slice("part", "remainder").at({row, i})));
      }
    }
    EXPECT_GT(largest, 1e-3) << "the edit changed nothing";
    // All other parts are those of the run without it.
    const auto others = grid.values() - plain.values();
    const auto remainder = grid.slice("part", "remainder").values();
    EXPECT_LT((others.abs().sum(1) - remainder.abs()).abs().max().item<double>(), kFloat64Tolerance);
  }
}

TEST(Attribution, AnswersMayBeTexts) {
  const auto model =
      HookedTransformer::load((std::filesystem::path(HOOKED_SOURCE_DIR) / "examples/toy_model").string());
  const std::string one = "When John and Mary went to the shop, John gave a bag to";
  const auto cache = model.run_with_cache(model.to_token_batch({one, one})).cache;
  const auto mary = model.to_token(" Mary"), john = model.to_token(" John");
  const auto values = [&](const Answers& answer, const Answers& against) {
    return direct_logit_attribution(model, cache, {.answer = answer, .against = against}).values();
  };
  EXPECT_TRUE(values(" Mary", " John").equal(values(mary, john)));
  EXPECT_TRUE(values(Answers::texts_by_row({" Mary", " John"}), " John")
                  .equal(values(Answers::by_row({mary, john}), john)));
  EXPECT_THROW(values(" Mary and John", " John"), TokenizerError);
  EXPECT_THROW(values(Answers::texts_by_row({" Mary"}), " John"), ShapeError);
  EXPECT_THAT(text_thrown_by<HookError>([&] { Answers(" Mary").of_row(0); }), HasSubstr("to_token"));
  EXPECT_THAT(text_thrown_by<TokenizerError>([&] {
                const auto nameless = random_model(two_layer_config());
                logit(Answers(" Mary")).score(nameless, random_row(6, 11, 4));
              }),
              HasSubstr("pass token ids"));
}

TEST(Attribution, ReadsEachRowsOwnPlacesAndNoPadding) {
  const auto model = random_model(two_layer_config());
  const auto tokens = random_row(6, 11, 4).expand({2, -1});
  const auto mask = at::tensor({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}, at::kLong).view({2, 6});
  const auto run = model.run_with_cache({tokens, {.attention_mask = mask}});
  const auto sum = [&](const AttributionOptions& options) {
    return direct_logit_attribution(model, run.cache, options).values().sum(1);  // [row, pos]
  };
  const auto near = [](const at::Tensor& a, const at::Tensor& b) {
    return (a - b).abs().item<double>() < kFloat64Tolerance;
  };
  const auto last = sum({.answer = 3});
  EXPECT_TRUE(near(last[0][0], run.logits()[0][5][3]));
  EXPECT_TRUE(near(last[1][0], run.logits()[1][3][3]));
  const auto named = sum({.answer = 3, .positions = {Position("subject", {1, 2})}});
  EXPECT_TRUE(near(named[0][0], run.logits()[0][1][3]));
  EXPECT_TRUE(near(named[1][0], run.logits()[1][2][3]));
  const auto all = sum({.answer = 3, .positions = {}});
  EXPECT_TRUE(all[1].isnan().equal(mask[1].eq(0)));
  EXPECT_TRUE(near(all[1][2], run.logits()[1][2][3]));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { sum({.answer = 3, .positions = {-1}}); }),
              AllOf(HasSubstr("padding in row 1"), HasSubstr("`last` is the last one of every row")));
}

TEST(Attribution, ASetOfAnswersCountsByItsMean) {
  const auto model = random_model(two_layer_config());
  const auto run = model.run_with_cache(random_row(6, 11, 4));
  const auto whole = [&](const Answers& answer) {
    return direct_logit_attribution(model, run.cache, {.answer = answer}).values().sum().item<double>();
  };
  EXPECT_NEAR(whole(Answers::any_of({3, 7, 8})), (whole(3) + whole(7) + whole(8)) / 3, kFloat64Tolerance);
}

TEST(Attribution, RefusesWhereNoSplitIsExact) {
  auto masked = two_layer_config();
  masked.unembedding->mlm_head = Activation::gelu;
  const auto model = random_model(masked);
  const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
  EXPECT_THAT(text_thrown_by<HookError>([&] { direct_logit_attribution(model, cache, {.answer = 1}); }),
              HasSubstr("masked-LM head"));
}

// Processing moves constants: the parts of a logit difference stay the same, except biases.
TEST(Attribution, RawAndProcessedWeightsGiveTheSamePartsOfADifference) {
  const auto raw = random_model(two_layer_config());
  const auto processed = random_model(two_layer_config(), WeightProcessing::all_that_apply());
  const auto tokens = random_row(6, 11, 4);
  const auto parts = [&](const HookedTransformer& model, ValueBiases value_biases) {
    return direct_logit_attribution(
        model, model.run_with_cache(tokens).cache,
        {.answer = 3, .against = 5, .grain = Grain::neuron, .value_biases = value_biases, .positions = {}});
  };
  const auto of_raw = parts(raw, ValueBiases::in_bias),
             of_processed = parts(processed, ValueBiases::in_heads);
  ASSERT_EQ(of_raw.axis("part"), of_processed.axis("part"));
  double of_biases = 0;
  for (const auto& label : of_raw.axis("part").labels) {
    const auto difference = (of_raw.slice("part", label) - of_processed.slice("part", label)).values();
    if (label == "final norm bias" || label == "unembed bias") {
      of_biases += difference[0][0].item<double>();
    } else {
      EXPECT_LT(difference.abs().max().item<double>(), kFloat64Tolerance) << label;
    }
  }
  EXPECT_NEAR(of_biases, 0, kFloat64Tolerance);
}

TEST(Attribution, TakesStacksOfYourOwn) {
  const auto model = random_model(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
  const AttributionOptions options{.answer = 1, .against = 2, .grain = Grain::head, .positions = {2, -1}};
  const auto stack = residual_parts(model, cache, {.grain = Grain::head, .positions = {2, -1}});
  const auto of_stack = direct_logit_attribution(model, cache, stack, options);
  const auto parts = direct_logit_attribution(model, cache, options);
  ASSERT_EQ(of_stack.axis("part"), stack.axis("part"));
  const auto count = of_stack.values().size(1);
  EXPECT_LT((of_stack.values() - parts.values().narrow(1, 0, count)).abs().max().item<double>(),
            kFloat64Tolerance);
}

// What a head moved from a token: its attention to it times the token's value through W_O.
TEST(SourceAttribution, IsAttentionTimesValuesThroughTheOutputMatrix) {
  auto config = two_layer_config();
  config.n_kv_heads = 2;
  const auto model = random_model(config);
  const auto run = model.run_with_cache(random_row(6, 11, 4));
  const auto grid = source_attribution(model, run.cache, {.answer = 1, .against = 2, .positions = {3}});
  ASSERT_EQ(grid.values().sizes(), at::IntArrayRef({1, 8, 1, 6}));
  EXPECT_EQ(grid.axes()[3].name, "key");
  EXPECT_EQ(grid.axis("part").labels[7], "head 1.3");
  const auto weights = model.weights();
  const auto direction = weights.W_U().select(1, 1) - weights.W_U().select(1, 2);
  const auto scale = run.cache[Address(act::ln_final_scale).row(0).pos(3)];
  const auto v = run.cache[act::v(1).row(0)].select(1, 1);  // [key, d_head] of the kv head of head 3
  for (std::int64_t key = 0; key < 6; ++key) {
    const auto x = v[key].matmul(weights.W_O(1, 3)) * run.cache[act::pattern(1).row(0).head(3)][3][key];
    const auto expected = ((x - x.mean()) / scale * weights.ln_final().w).dot(direction).item<double>();
    EXPECT_NEAR(grid.at({0, 7, 0, key}), expected, kFloat64Tolerance);
    if (key > 3) {
      EXPECT_EQ(grid.at({0, 7, 0, key}), 0);
    }
  }
}

// A run computes patterns only when they are read; for one position that is one row of them.
TEST(SourceAttribution, OfOnePositionMakesOneRowOfThePatterns) {
  auto config = two_layer_config();
  config.n_ctx = 128;
  const auto model = random_model(config);
  const auto cache = model.run_with_cache(random_row(128, 11, 4)).cache;
  source_attribution(model, cache, {.answer = 1, .positions = {100}});
  const auto before = cache.bytes();
  const auto grid = source_attribution(model, cache, {.answer = 1, .positions = {100}});
  EXPECT_EQ(cache.bytes(), before);
  const auto whole = cache[act::pattern(1)];
  EXPECT_GE(cache.bytes() - before, static_cast<std::size_t>(whole.numel()) * sizeof(double))
      << "was made already";
  const auto all = source_attribution(model, cache, {.answer = 1, .positions = {}});
  EXPECT_LT((all.values().narrow(2, 100, 1) - grid.values()).abs().max().item<double>(), kFloat64Tolerance);
}

// As large as half of GPT-2: neurons must not be expanded to vectors, which would be 1.8 GB a
// layer.
TEST(Attribution, OfNeuronsTakesLittleMemory) {
  if (const std::string why = why_no_peaks(); !why.empty()) GTEST_SKIP() << why;
  auto config = two_layer_config();
  config.n_layers = 12;
  config.d_model = 768;
  config.n_heads = config.n_kv_heads = 12;
  config.d_head = 64;
  config.d_mlp = 3072;
  config.n_ctx = 128;
  config.dtype = at::kFloat;
  const auto model = HookedTransformer::create(config, {.seed = 1});
  const auto cache = model.run_with_cache(random_row(128, 11, 4)).cache;
  const auto peak_of = [&](const auto& attribute) {
    const PeakMemory held;
    attribute();
    return held.bytes();
  };
  const AttributionOptions options{.answer = 1, .against = 2, .grain = Grain::neuron, .positions = {}};
  constexpr std::int64_t kMost = std::int64_t{256} << 20;
  EXPECT_LT(peak_of([&] { direct_logit_attribution(model, cache, options); }), kMost);
  EXPECT_LT(peak_of([&] { norm_shares(model, cache, options); }), kMost);
  EXPECT_LT(peak_of([&] { leave_one_out(model, cache, options); }), kMost);
}

// What writes last is taken first.
TEST(Attribution, GivesWhatItHasWhereItIsEnded) {
  const auto model = random_model(two_layer_config());
  const auto run = model.run_with_cache(random_row(6, 11, 4));
  AttributionOptions options{.answer = 1, .against = 2, .grain = Grain::head};
  const auto whole = direct_logit_attribution(model, run.cache, options);
  std::vector<std::int64_t> told;
  options.progress = [&](const SweepProgress& now) {
    told.push_back(now.done);
    EXPECT_GT(now.total, 3);
    return now.done < 3;
  };
  const auto some = direct_logit_attribution(model, run.cache, options);
  EXPECT_EQ(told, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(some.axis("part").labels, whole.axis("part").labels);
  std::vector<std::string> there;
  for (const auto& label : some.axis("part").labels) {
    const double part = some.slice("part", label).at({0, 0});
    if (std::isnan(part)) continue;
    there.push_back(label);
    EXPECT_EQ(part, whole.slice("part", label).at({0, 0})) << label;
  }
  EXPECT_THAT(there, ElementsAre("head 1.0", "head 1.1", "head 1.2", "head 1.3", "attn bias 1", "mlp 1",
                                 "final norm bias", "unembed bias"));
}

TEST(SourceAttribution, GivesWhatItHasWhereItIsEnded) {
  const auto model = random_model(two_layer_config());
  const auto run = model.run_with_cache(random_row(6, 11, 4));
  SourceAttributionOptions options{.answer = 1};
  const auto whole = source_attribution(model, run.cache, options).values();  // [row, head, pos, key]
  options.progress = [](const SweepProgress& now) {
    EXPECT_EQ(now.total, 2);
    return false;
  };
  const auto some = source_attribution(model, run.cache, options).values();
  EXPECT_TRUE(some.narrow(1, 0, 4).isnan().all().item<bool>());
  EXPECT_TRUE(some.narrow(1, 4, 4).equal(whole.narrow(1, 4, 4)));
}

TEST(SourceAttribution, SaysWhatIsMissing) {
  const auto model = random_model(two_layer_config());
  const auto tokens = random_row(6, 11, 4);
  const auto prefix = model.run(tokens.narrow(1, 0, 2), {.keep_prefix = true}).prefix;
  const auto cache = model.run_with_cache({tokens.narrow(1, 2, 4), {.prefix = prefix}}).cache;
  EXPECT_THAT(text_thrown_by<HookError>([&] { source_attribution(model, cache, {.answer = 1}); }),
              AllOf(HasSubstr("hook_v"), HasSubstr("without a prefix")));
  const auto whole = model.run_with_cache(tokens).cache;
  EXPECT_THAT(text_thrown_by<HookError>(
                  [&] { source_attribution(model, whole, {.answer = 1, .pattern = act::cross_pattern}); }),
              HasSubstr("no cross-attention"));
  EXPECT_THAT(
      text_thrown_by<HookError>([&] { source_attribution(model, whole, {.answer = 1, .pattern = act::z}); }),
      HasSubstr("expected `pattern`"));
}

TEST(Attribution, SaysWhatIsMissing) {
  const auto model = random_model(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 4), act::resid_post).cache;
  EXPECT_THAT(text_thrown_by<HookError>([&] { direct_logit_attribution(model, cache, {.answer = 1}); }),
              HasSubstr("hook_embed"));
  const auto whole = model.run_with_cache(random_row(6, 11, 4)).cache;
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { direct_logit_attribution(model, whole, {.answer = 11}); }),
              AllOf(HasSubstr("token id 11"), HasSubstr("0 to 10")));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] {
                direct_logit_attribution(model, whole, {.answer = Answers::by_row({1, 2})});
              }),
              AllOf(HasSubstr("answers for 2 rows"), HasSubstr("1 rows")));
}

// The weight and bias of the final norm come from the model, not from the caller's handle.
TEST(Attribution, DoesNotRunTheHooksOfTheHandle) {
  auto model = random_model(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
  const auto made = [&] {
    return std::vector{direct_logit_attribution(model, cache, {.answer = 3, .against = 5}).values(),
                       source_attribution(model, cache, {.answer = 3}).values(),
                       logit_lens(model, cache, {.tokens = {3}}).probabilities.values()};
  };
  const auto plain = made();
  const auto inside = model.hook(act::z(1), [](const at::Tensor& z) { return z * 0.0; });
  const auto behind = model.hook(act::unembed_in, [](const at::Tensor& x) { return x * 2.0; });
  const auto hooked = made();
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(plain[i].equal(hooked[i])) << i;
}

// Processing subtracts the mean over the vocabulary from a single logit; a difference stays the same.
TEST(Units, SayWhereALogitIsCentred) {
  const auto tokens = random_row(5, 11, 4);
  for (const bool centred : {false, true}) {
    const auto model = random_model(two_layer_config(),
                                    centred ? WeightProcessing::all_that_apply() : WeightProcessing::none());
    const std::string unit = centred ? "logits (centred)" : "logits";
    const auto cache = model.run_with_cache(tokens).cache;
    EXPECT_EQ(direct_logit_attribution(model, cache, {.answer = 3}).unit(), unit);
    EXPECT_EQ(direct_logit_attribution(model, cache, {.answer = 3, .against = 5}).unit(), "logits");
    EXPECT_EQ(leave_one_out(model, cache, {.answer = 3}).exact.unit(), unit);
    EXPECT_EQ(logit_lens(model, cache, {.tokens = {3}}).logits.unit(), unit);
  }
}

}  // namespace
}  // namespace hooked::attribution_test
