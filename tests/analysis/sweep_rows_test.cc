// Sweeps of several prompts, metrics, places and sources.

#include <iostream>

#include "hooked/analysis/sweep.h"
#include "tests/support/tiny_model.h"

namespace hooked::sweep_rows_test {
namespace {

constexpr double kTolerance = 1e-10;

/// Three prompts of 6, 4 and 5 tokens, padded on one side, and the same prompts corrupted.
class SweepRows : public testing::TestWithParam<bool> {
 protected:
  SweepRows() {
    mask_ = at::ones({3, 6}, at::kLong);
    for (const auto& [row, padding] : {std::pair{1, 2}, {2, 1}})
      mask_[row].narrow(0, left() ? 0 : 6 - padding, padding).zero_();
    clean_ = at::cat({random_row(6, 11, 1), random_row(6, 11, 2), random_row(6, 11, 3)});
    corrupted_ = at::cat({random_row(6, 11, 4), random_row(6, 11, 5), random_row(6, 11, 6)});
    cache_ = model_.run_with_cache(input(clean_), act::everything).cache;
  }
  bool left() const { return GetParam(); }
  Input input(const at::Tensor& tokens) const { return {tokens, {.attention_mask = mask_}}; }
  Input row(const at::Tensor& tokens, std::int64_t r) const {
    return {tokens.narrow(0, r, 1), {.attention_mask = mask_.narrow(0, r, 1)}};
  }
  bool is_padding(std::int64_t r, std::int64_t pos) const { return mask_[r][pos].item<std::int64_t>() == 0; }
  /// One full run of one row with an edit.
  double alone(const Metric& metric, std::int64_t r, const Edit& edit) const {
    return metric.score(model_, row(corrupted_, r), {.edits = {edit}})[0].item<double>();
  }

  HookedTransformer model_ = random_model(two_layer_config());
  at::Tensor mask_, clean_, corrupted_;
  ActivationCache cache_;
  Answers answers_ = Answers::by_row({3, 4, 5}), against_ = Answers::by_row({7, 8, 9});
};

TEST_P(SweepRows, EachRowAndMetricHasItsNumbers) {
  const auto grid = sweep(model_, {.site = act::resid_pre,
                                   .over = {Axis::layer, Axis::pos},
                                   .from = cache_,
                                   .into = input(corrupted_),
                                   .metric = {logit_difference(answers_, against_), probability(answers_)}});
  ASSERT_EQ(grid.values().sizes(), at::IntArrayRef({2, 3, 2, 6}));
  EXPECT_EQ(grid.axis("metric").labels, (std::vector<std::string>{"logit difference", "probability"}));
  EXPECT_EQ(grid.unit(), "score");
  for (std::int64_t r = 0; r < 3; ++r) {
    const Metric metrics[] = {logit_difference(answers_.of_rows({r}), against_.of_rows({r})),
                              probability(answers_.of_rows({r}))};
    for (std::int32_t layer = 0; layer < 2; ++layer) {
      for (std::int64_t pos = 0; pos < 6; ++pos) {
        for (std::int64_t m = 0; m < 2; ++m) {
          const double made = grid.at({m, r, layer, pos});
          if (is_padding(r, pos)) {
            EXPECT_TRUE(std::isnan(made)) << "padding is not patched";
            continue;
          }
          const Edit edit = replace(act::resid_pre(layer).pos(pos), cache_.row(r));
          EXPECT_NEAR(made, alone(metrics[m], r, edit), kTolerance) << r << ' ' << layer << ' ' << pos;
        }
      }
    }
  }
}

TEST_P(SweepRows, RowsStandWhereTheyAreNamed) {
  const SweepOptions options{.site = act::z,
                             .over = {Axis::layer, {Axis::batch, {2, 0}}, {Axis::head, {-1, 1}}},
                             .from = cache_,
                             .into = input(corrupted_),
                             .metric = logit(3)};
  const auto grid = sweep(model_, options);
  ASSERT_EQ(grid.values().sizes(), at::IntArrayRef({2, 2, 2}));
  EXPECT_EQ(grid.axes()[1].name, "row");
  EXPECT_EQ(grid.axes()[1].labels, (std::vector<std::string>{"2", "0"}));
  EXPECT_NEAR(grid.at({1, 0, 0}), alone(logit(3), 2, replace(act::z(1).head(3), cache_.row(2))), kTolerance);
  EXPECT_NEAR(grid.at({0, 1, 1}), alone(logit(3), 0, replace(act::z(0).head(1), cache_.row(0))), kTolerance);
}

TEST_P(SweepRows, PlacesMayStandElsewhereInTheOtherPrompt) {
  const Position into("into", {left() ? 2 : 1, left() ? 3 : 0, left() ? 2 : 1});
  const Position from("from", {4, left() ? 5 : 2, 3});
  const auto grid = sweep(model_, {.site = act::mlp_out,
                                   .over = {Axis::layer, {Axis::pos, {{into, from}, Position::last()}}},
                                   .from = cache_,
                                   .into = input(corrupted_),
                                   .metric = logit(3)});
  ASSERT_EQ(grid.values().sizes(), at::IntArrayRef({3, 2, 2}));
  EXPECT_EQ(grid.axis("pos").labels, (std::vector<std::string>{"into", "last"}));
  for (std::int64_t r = 0; r < 3; ++r) {
    const std::int64_t columns[] = {left() ? std::vector{2, 3, 2}[r] : std::vector{1, 0, 1}[r],
                                    left() ? std::vector{4, 5, 3}[r] : std::vector{4, 2, 3}[r]};
    const at::Tensor value = cache_[act::mlp_out(1)][r][columns[1]];
    EXPECT_NEAR(grid.at({r, 1, 0}), alone(logit(3), r, set(act::mlp_out(1).pos(columns[0]), value)),
                kTolerance);
    const std::int64_t last = left() ? 5 : std::vector{5, 3, 4}[r];
    EXPECT_NEAR(grid.at({r, 0, 1}), alone(logit(3), r, replace(act::mlp_out(0).pos(last), cache_.row(r))),
                kTolerance);
  }
}

TEST_P(SweepRows, PromptsOfOtherLengthsNeedPlaces) {
  const Input other{clean_.narrow(1, 0, 5), {}};
  const auto longer = model_.run_with_cache(other).cache;
  SweepOptions options{.site = act::z,
                       .over = {Axis::layer, Axis::head},
                       .from = longer,
                       .into = input(corrupted_),
                       .metric = logit(3)};
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, options); }),
              AllOf(HasSubstr("in row 0"), HasSubstr("6 columns"), HasSubstr("5 columns")));
  options.over = {Axis::layer, Axis::head, {Axis::pos, {Position::last()}}};
  const at::Tensor value = longer[act::z(1)][2][4][3];
  EXPECT_NEAR(sweep(model_, options).at({2, 1, 3, 0}),
              alone(logit(3), 2, set(act::z(1).head(3).pos(left() ? 5 : 4), value)), kTolerance);
}

TEST_P(SweepRows, ValuesComeFromManyPlaces) {
  const Address place = act::z(1).head(2).pos(3);
  const auto swept = [&](PatchSource from) {
    return sweep(model_, {.site = act::z,
                          .over = {Axis::layer, Axis::head, Axis::pos},
                          .from = std::move(from),
                          .into = input(corrupted_),
                          .metric = logit(3)})
        .slice("row", 0)
        .at({1, 2, 3});
  };
  const auto set_alone = [&](const at::Tensor& value) { return alone(logit(3), 0, set(place, value)); };
  const at::Tensor all = cache_[act::z(1)].select(2, 2);  // [row, pos, d_head]
  EXPECT_NEAR(swept(PatchSource::zero()), alone(logit(3), 0, zero(place)), kTolerance);
  EXPECT_NEAR(swept(PatchSource::value(0.25)), alone(logit(3), 0, set(place, 0.25)), kTolerance);
  const at::Tensor direction = at::randn({6}, at::kDouble);
  EXPECT_NEAR(swept(PatchSource::value(direction)), set_alone(direction), kTolerance);

  at::Tensor real_at_3 = at::zeros({6}, at::kDouble), real = real_at_3.clone();
  double rows_at_3 = 0, tokens = 0;
  for (std::int64_t r = 0; r < 3; ++r) {
    for (std::int64_t pos = 0; pos < 6; ++pos) {
      if (is_padding(r, pos)) continue;
      real += all[r][pos];
      ++tokens;
      if (pos != 3) continue;
      real_at_3 += all[r][pos];
      ++rows_at_3;
    }
  }
  EXPECT_NEAR(swept(PatchSource::mean(cache_, MeanOver::rows_and_positions)), set_alone(real / tokens),
              kTolerance);
  EXPECT_NEAR(swept(PatchSource::mean(cache_, MeanOver::rows)), set_alone(real_at_3 / rows_at_3), kTolerance);
  EXPECT_NEAR(swept(PatchSource::mixture(cache_, PatchSource::zero(), 0.25)), set_alone(all[0][3] * 0.75),
              kTolerance);
}

/// The patched run of a row without any padding, with an edit of all scores or patterns of a head.
double unpadded(const HookedTransformer& model, const at::Tensor& tokens, const Address& place,
                const at::Tensor& value) {
  return logit(3).score(model, tokens, {.edits = {set(place, value)}}).item<double>();
}

/// Padding gets no score and no attention, whatever is patched in: rows equal the rows alone.
TEST_P(SweepRows, KeysThatAreMaskedStayMasked) {
  const at::Tensor later = at::ones({6, 6}, at::kBool).triu(1);
  for (const double number : {0.0, 0.25}) {
    for (const SweptSite& site : {SweptSite(act::attn_scores), SweptSite(act::pattern)}) {
      const bool scores = site.site == Site::attn_scores;
      SweepOptions options{.site = site,
                           .over = {Axis::layer, Axis::head},
                           .from = PatchSource::value(number),
                           .into = input(corrupted_),
                           .metric = logit(3)};
      const Grid grid = sweep(model_, options);
      for (std::int64_t r = 0; r < 3; ++r) {
        const std::int64_t length = mask_[r].sum().item<std::int64_t>();
        const at::Tensor own = corrupted_.narrow(0, r, 1).narrow(1, left() ? 6 - length : 0, length);
        const at::Tensor hidden = later.narrow(0, 0, length).narrow(1, 0, length);
        const at::Tensor value =
            at::full({1, length, length}, number, at::kDouble)
                .masked_fill(hidden, scores ? -std::numeric_limits<double>::infinity() : 0.0);
        for (std::int32_t layer = 0; layer < 2; ++layer) {
          const Address place =
              Address(ActivationName{.site = site.site, .stack = Stack::blocks, .layer = layer}).head(2);
          EXPECT_NEAR(grid.at({r, layer, 2}), unpadded(model_, own, place, value), kTolerance)
              << place.to_string();
        }
      }
      // The same with an address.
      options.over.clear();
      options.site = std::nullopt;
      const Address place = scores ? act::attn_scores(1).head(2) : act::pattern(1).head(2);
      options.table = {{place}};
      EXPECT_NEAR(sweep(model_, options).at({1, 0}), grid.at({1, 1, 2}), kTolerance);
      EXPECT_TRUE(sweep(model_, options).values().isfinite().all().item<bool>());
    }
  }
}

/// A mean of scores or patterns is over the rows in which query and key are both tokens.
TEST_P(SweepRows, MeansOfPatternsLeaveOutPadding) {
  for (const SweptSite& site : {SweptSite(act::attn_scores), SweptSite(act::pattern)}) {
    const auto name = [&](std::int32_t layer) {
      return ActivationName{.site = site.site, .stack = Stack::blocks, .layer = layer};
    };
    const Grid grid = sweep(model_, {.site = site,
                                     .over = {Axis::layer, Axis::head},
                                     .from = PatchSource::mean(cache_, MeanOver::rows),
                                     .into = input(corrupted_),
                                     .metric = logit(3)});
    for (std::int32_t layer = 0; layer < 2; ++layer) {
      // Each row alone, placed where its tokens are.
      at::Tensor sum = at::zeros({4, 6, 6}, at::kDouble), count = at::zeros({6, 6}, at::kDouble);
      for (std::int64_t r = 0; r < 3; ++r) {
        const std::int64_t length = mask_[r].sum().item<std::int64_t>(), first = left() ? 6 - length : 0;
        const at::Tensor own = clean_.narrow(0, r, 1).narrow(1, first, length);
        const at::Tensor value =
            model_.run_with_cache(own, Selection(name(layer))).cache[Address(name(layer))][0];
        sum.narrow(1, first, length).narrow(2, first, length).add_(value);
        count.narrow(0, first, length).narrow(1, first, length).add_(1);
      }
      const at::Tensor mean = sum / count;
      for (std::int64_t r = 0; r < 3; ++r) {
        const std::int64_t length = mask_[r].sum().item<std::int64_t>(), first = left() ? 6 - length : 0;
        const at::Tensor own = corrupted_.narrow(0, r, 1).narrow(1, first, length);
        const at::Tensor value = mean[1].narrow(0, first, length).narrow(1, first, length).unsqueeze(0);
        EXPECT_NEAR(grid.at({r, layer, 1}), unpadded(model_, own, Address(name(layer)).head(1), value),
                    kTolerance);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(PaddingOn, SweepRows, testing::Bool(),
                         [](const auto& info) { return info.param ? "the_left" : "the_right"; });

class SweepOfOneRow : public testing::Test {
 protected:
  SweepOptions options() const {
    return {.site = act::z,
            .over = {Axis::layer, Axis::head},
            .from = cache_,
            .into = corrupted_,
            .metric = logit(3)};
  }
  double alone(const Edit& edit, std::vector<Edit> standing = {}) const {
    standing.push_back(edit);
    return logit(3).score(model_, corrupted_, {.edits = std::move(standing)})[0].item<double>();
  }

  HookedTransformer model_ = random_model(two_layer_config());
  at::Tensor clean_ = random_row(6, 11, 1), corrupted_ = random_row(6, 11, 2);
  ActivationCache cache_ = model_.run_with_cache(clean_, act::everything).cache;
};

TEST_F(SweepOfOneRow, ADrawnRowIsOneOfTheData) {
  const at::Tensor rows = at::cat({random_row(6, 11, 7), random_row(6, 11, 8), random_row(6, 11, 9)});
  const auto data = model_.run_with_cache(rows).cache;
  std::set<std::size_t> drawn;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    auto resampled = options();
    resampled.from = PatchSource::resampled(data, seed);
    const auto grid = sweep(model_, resampled);
    EXPECT_TRUE(grid.values().equal(sweep(model_, resampled).values())) << "the same seed draws the same row";
    std::vector<std::size_t> same;
    for (std::size_t r = 0; r < 3; ++r) {
      const auto row = data.row(static_cast<std::int64_t>(r));
      if (std::abs(grid.at({1, 2}) - alone(replace(act::z(1).head(2), row))) < kTolerance &&
          std::abs(grid.at({0, 0}) - alone(replace(act::z(0).head(0), row))) < kTolerance)
        same.push_back(r);
    }
    ASSERT_EQ(same.size(), 1U) << "one row serves all places";
    drawn.insert(same.front());
  }
  EXPECT_EQ(drawn.size(), 3U) << "every row is drawn by some seed";
}

/// A query and a key that are in no row together have no mean.
TEST(SweepSources, AMeanThatNoRowHasIsRefused) {
  ModelConfig config = two_layer_config();
  config.direction = AttentionDirection::bidirectional;
  const HookedTransformer both_ways = random_model(config);
  at::Tensor mask = at::ones({2, 6}, at::kLong);
  mask[0].narrow(0, 0, 2).zero_();
  mask[1].narrow(0, 4, 2).zero_();
  const Input data(at::cat({random_row(6, 11, 1), random_row(6, 11, 2)}), {.attention_mask = mask});
  const auto swept = [&](const HookedTransformer& model) {
    return sweep(model,
                 {.site = act::pattern,
                  .over = {Axis::layer, Axis::head},
                  .from = PatchSource::mean(model.run_with_cache(data, act::pattern).cache, MeanOver::rows),
                  .into = random_row(6, 11, 3),
                  .metric = logit(3)});
  };
  EXPECT_THAT(text_thrown_by<HookError>([&] { swept(both_ways); }),
              HasSubstr("a pair of a query and a key has padding in all rows"));
  // Without later keys: query 5 and key 0 are in no row, as rows are padded on different sides.
  EXPECT_THAT(text_thrown_by<HookError>([&] { swept(random_model(two_layer_config())); }),
              HasSubstr("a pair of a query and a key has padding in all rows"));
}

TEST_F(SweepOfOneRow, EditsStayInForce) {
  const std::vector<Edit> standing{scale(act::resid_mid(0), 0.5), zero(act::z(1).head(1)),
                                   replace(act::mlp_out(0), cache_)};
  for (const SweptSite site : {SweptSite(act::z), SweptSite(act::v), SweptSite(act::pattern)}) {
    auto edited = options();
    edited.site = site;
    edited.edits = standing;
    const auto grid = sweep(model_, edited);
    for (std::int32_t layer = 0; layer < 2; ++layer) {
      for (std::int64_t head = 0; head < 4; ++head) {
        const Address place = Address(ActivationName{.site = site.site, .layer = layer}).head(head);
        EXPECT_NEAR(grid.at({layer, head}), alone(replace(place, cache_), standing), kTolerance);
      }
    }
  }
}

TEST_F(SweepOfOneRow, EditsOfABatchAreEachRowsOwn) {
  const at::Tensor both = at::cat({corrupted_, clean_});
  const at::Tensor values = at::randn({2, 6, 16}, at::kDouble);
  auto edited = options();
  edited.into = both;
  edited.from = PatchSource::zero();
  edited.edits = {set(act::resid_mid(0), values), scale(act::mlp_out(0).row(1), 3.0),
                  set(act::attn_out(1).row(0).pos(2), at::ones({16}, at::kDouble))};
  const auto grid = sweep(model_, edited);
  const auto zeroed = [&](std::int64_t head) { return zero(act::z(1).head(head)); };
  EXPECT_NEAR(grid.at({0, 1, 2}),
              alone(zeroed(2), {set(act::resid_mid(0), values.narrow(0, 0, 1)),
                                set(act::attn_out(1).pos(2), at::ones({16}, at::kDouble))}),
              kTolerance);
  EXPECT_NEAR(grid.at({1, 1, 3}),
              logit(3)
                  .score(model_, clean_,
                         {.edits = {set(act::resid_mid(0), values.narrow(0, 1, 1)),
                                    scale(act::mlp_out(0), 3.0), zeroed(3)}})[0]
                  .item<double>(),
              kTolerance);
}

TEST_F(SweepOfOneRow, ATableMayPatchSeveralPlacesTogether) {
  SweepOptions table{.table = {{act::z(0).head(1), act::z(1).head(3).pos(-1)},
                               {act::mlp_out(-1)},
                               {act::resid_pre(1).pos(AxisIndex::Last{})},
                               {"blocks.0.attn.hook_pattern[head=0+2,query=3:5]", act::k(0).head(1)}},
                     .from = cache_,
                     .into = corrupted_,
                     .metric = logit(3)};
  const auto grid = sweep(model_, table);
  ASSERT_EQ(grid.values().sizes(), at::IntArrayRef({4}));
  EXPECT_EQ(grid.axes()[0].labels[1], "blocks.1.hook_mlp_out");
  EXPECT_EQ(grid.largest(4)[0].place.has_value(), grid.largest(4)[0].index[0] % 3 != 0);
  for (std::size_t cell = 0; cell < table.table.size(); ++cell) {
    std::vector<Edit> edits;
    for (const Address& address : table.table[cell]) edits.push_back(replace(address, cache_));
    EXPECT_NEAR(grid.at({static_cast<std::int64_t>(cell)}),
                logit(3).score(model_, corrupted_, {.edits = edits})[0].item<double>(), kTolerance)
        << cell;
  }
  table.table.push_back({});
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, table); }),
              HasSubstr("row of the table is empty"));
  table.table.back() = {act::z(0).row(0)};
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, table); }), HasSubstr("without a batch row"));
}

TEST_F(SweepOfOneRow, AnExpertsTokensArePatchedWhereBothRunsSendThemToIt) {
  ModelConfig config = two_layer_config();
  config.mlp = MlpKind::gated;
  config.experts = Experts{.n_experts = 3, .per_token = 2, .d_expert = 8, .dense_layers = {true, false}};
  const auto model = random_model(config);
  const auto clean = model.run_with_cache(clean_, act::everything).cache;
  const auto into = model.run_with_cache(corrupted_, act::everything).cache;
  SweepOptions experts{.site = act::expert_post,
                       .over = {Axis::layer, Axis::expert},
                       .from = PatchSource::zero(),
                       .into = corrupted_,
                       .metric = logit(3)};
  const auto zeroed = sweep(model, experts);
  experts.from = clean;
  const auto patched = sweep(model, experts);
  double largest = 0;
  for (std::int32_t e = 0; e < 3; ++e) {
    EXPECT_TRUE(std::isnan(zeroed.at({0, e}))) << "layer 0 has no experts";
    EXPECT_NEAR(
        zeroed.at({1, e}),
        logit(3).score(model, corrupted_, {.edits = {zero(act::expert_post(1, e))}})[0].item<double>(),
        kTolerance);
    // By hand: a token's index among those of the expert, by rank and position.
    const auto tokens = [&](const ActivationCache& cache) {
      std::vector<std::int64_t> of_expert;
      const at::Tensor ids = cache[act::expert_indices(1)][0];
      for (std::int64_t rank = 0; rank < 2; ++rank) {
        for (std::int64_t pos = 0; pos < 6; ++pos)
          if (ids[pos][rank].item<std::int64_t>() == e) of_expert.push_back(pos);
      }
      return of_expert;
    };
    const auto here = tokens(into), there = tokens(clean);
    at::Tensor value = into[act::expert_post(1, e)].clone();
    for (std::size_t i = 0; i < here.size(); ++i) {
      for (std::size_t j = 0; j < there.size(); ++j) {
        if (here[i] == there[j])
          value[static_cast<std::int64_t>(i)] = clean[act::expert_post(1, e)][static_cast<std::int64_t>(j)];
      }
    }
    const double alone =
        logit(3).score(model, corrupted_, {.edits = {set(act::expert_post(1, e), value)}})[0].item<double>();
    EXPECT_NEAR(patched.at({1, e}), alone, kTolerance) << e;
    largest = std::max(largest, std::abs(alone - logit(3).score(model, corrupted_)[0].item<double>()));
  }
  EXPECT_GT(largest, 1e-4) << "no patch changed anything";
}

TEST_F(SweepOfOneRow, ExpertsOfPaddedRowsAndOfSeveralRowsAreFoundByTheirTokens) {
  ModelConfig config = two_layer_config();
  config.mlp = MlpKind::gated;
  config.experts = Experts{.n_experts = 3, .per_token = 2, .d_expert = 8};
  config.d_mlp = 8;
  const auto model = random_model(config);
  at::Tensor mask = at::ones({2, 6}, at::kLong);
  mask[1].narrow(0, 0, 2).zero_();
  const Input into{at::cat({corrupted_, clean_}), {.attention_mask = mask}},
      from{at::cat({clean_, corrupted_}), {.attention_mask = mask}};
  const auto clean = model.run_with_cache(from, act::everything).cache;
  const SweepOptions options{.site = act::expert_post,
                             .over = {Axis::layer, Axis::expert},
                             .from = clean,
                             .into = into,
                             .metric = logit(3)};
  const auto grid = sweep(model, options);
  for (std::int64_t r = 0; r < 2; ++r) {
    const auto one = [&](const Input& all) {
      return Input(all.tokens.narrow(0, r, 1), {.attention_mask = mask.narrow(0, r, 1)});
    };
    SweepOptions alone = options;
    alone.from = model.run_with_cache(one(from), act::everything).cache;
    alone.into = one(into);
    const at::Tensor difference = grid.slice("row", r).values() - sweep(model, alone).values();
    EXPECT_LT(difference.abs().max().item<double>(), kTolerance) << r;
  }
  // Without padding the same tokens meet the same experts.
  SweepOptions short_row = options;
  short_row.into = into.tokens.narrow(0, 1, 1).narrow(1, 2, 4);
  short_row.from = model.run_with_cache(from.tokens.narrow(0, 1, 1).narrow(1, 2, 4), act::everything).cache;
  const at::Tensor difference = grid.slice("row", 1).values() - sweep(model, short_row).values();
  EXPECT_LT(difference.abs().max().item<double>(), 1e-9);
}

TEST_F(SweepOfOneRow, SourcesThatDoNotFitAreRefused) {
  auto wrong = options();
  wrong.from = PatchSource::value(at::ones({20, 4, 6}, at::kDouble));
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, wrong); }), HasSubstr("does not fit"));
  const at::Tensor mask = at::tensor(std::vector<std::int64_t>{0, 1, 1, 1, 1, 1}).unsqueeze(0);
  const auto padded = model_.run_with_cache(Input(clean_, {.attention_mask = mask})).cache;
  wrong.from = PatchSource::mixture(cache_, padded, 0.5);
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, wrong); }), HasSubstr("different columns"));
  wrong.from = PatchSource::mean(padded, MeanOver::rows);
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, wrong); }), HasSubstr("padding in all rows"));
  wrong.from = PatchSource::mean(cache_, MeanOver::rows_and_positions);
  wrong.site = act::pattern;
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, wrong); }),
              HasSubstr("the mean over rows alone"));
  EXPECT_THROW(PatchSource::mixture(cache_, cache_, NAN), ShapeError);
}

TEST_F(SweepOfOneRow, OnlyTheLayersThatAreSweptNeedToBeKept) {
  auto one_layer = options();
  one_layer.over = {{Axis::layer, {1}}, Axis::head};
  one_layer.from = model_.run_with_cache(clean_, act::z(1)).cache;
  EXPECT_NEAR(sweep(model_, one_layer).at({0, 2}), alone(replace(act::z(1).head(2), cache_)), kTolerance);
}

TEST_F(SweepOfOneRow, RowsThatAreNotSweptMayHavePaddingThere) {
  const at::Tensor mask =
      at::tensor(std::vector<std::int64_t>{1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1}).view({2, 6});
  const Input into(at::cat({corrupted_, clean_}), {.attention_mask = mask});
  const SweepOptions first{.site = act::mlp_out,
                           .over = {{Axis::batch, {0}}, Axis::layer, {Axis::pos, {1}}},
                           .from = PatchSource::zero(),
                           .into = into,
                           .metric = logit(3)};
  EXPECT_NEAR(sweep(model_, first).at({0, 1, 0}), alone(zero(act::mlp_out(1).pos(1))), kTolerance);
  auto second = first;
  second.over[0] = {Axis::batch, {1}};
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { sweep(model_, second); }), HasSubstr("padding in row 1"));
  second.over[0] = {Axis::batch, {{0, 1}}};
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, second); }), HasSubstr("not a row"));
  const auto shares = sweep(model_, first)
                          .rescaled(scores(model_, into, first.metric),
                                    scores(model_, at::cat({clean_, clean_}), first.metric), "share");
  EXPECT_FALSE(std::isnan(shares.at({0, 1, 0})));
}

// In float32 a token whose experts are nearly tied may go to other experts in a batch than alone.
TEST_F(SweepOfOneRow, MixturesInFloat32AreFullRunsWhereNoTokenIsNearlyTied) {
  ModelConfig config = two_layer_config();
  config.mlp = MlpKind::gated;
  config.experts = Experts{.n_experts = 4, .per_token = 2, .d_expert = 8};
  config.d_mlp = 8;
  config.dtype = at::kFloat;
  const auto model = HookedTransformer::create(config, {.seed = 4});
  const auto clean = model.run_with_cache(clean_).cache;
  std::int64_t tied = 0, compared = 0;
  for (const act::BlockSite& site : {act::resid_pre, act::attn_out, act::mlp_out}) {
    const auto grid = sweep(model, {.site = site,
                                    .over = {Axis::layer, Axis::pos},
                                    .from = clean,
                                    .into = corrupted_,
                                    .metric = logit(3)});
    for (const auto& cell : grid.largest(100)) {
      const Edit edit = replace(site(static_cast<std::int32_t>(cell.index[0])).pos(cell.index[1]), clean);
      const double alone = logit(3).score(model, corrupted_, {.edits = {edit}})[0].item<double>();
      if (std::abs(cell.value - alone) <= 1e-4) {
        ++compared;
        continue;
      }
      // The list says which cell, and how near a tie was.
      const auto routed = model.run_with_cache(corrupted_, act::expert_weights, {.edits = {edit}}).cache;
      ++tied;
      std::cout << "routing flips: " << edit.target.indices.to_string() << " by " << cell.value - alone
                << '\n'
                << routed[act::expert_weights(0)] << '\n';
    }
  }
  EXPECT_LE(tied, 1) << "nearly tied experts are rare";
  EXPECT_GE(compared, 35);
}

TEST_F(SweepOfOneRow, RescalingTakesEachRowsOwnScores) {
  const at::Tensor both = at::cat({corrupted_, clean_}), clean = at::cat({clean_, corrupted_});
  auto pairs = options();
  pairs.into = both;
  pairs.from = model_.run_with_cache(clean).cache;
  pairs.metric = {logit(3), logit(4)};
  const auto grid = sweep(model_, pairs);
  const auto shares =
      grid.rescaled(scores(model_, both, pairs.metric), scores(model_, clean, pairs.metric), "share");
  for (std::int64_t m = 0; m < 2; ++m) {
    for (std::int64_t r = 0; r < 2; ++r) {
      const auto score = [&](const at::Tensor& tokens) {
        return logit(m == 0 ? 3 : 4).score(model_, tokens)[r].item<double>();
      };
      EXPECT_NEAR(shares.at({m, r, 1, 2}),
                  (grid.at({m, r, 1, 2}) - score(both)) / (score(clean) - score(both)), 1e-9);
    }
  }
  EXPECT_EQ(shares.unit(), "share");
  EXPECT_THROW(grid.slice("row", 0).rescaled(scores(model_, both, pairs.metric),
                                             scores(model_, clean, pairs.metric), "share"),
               ShapeError);
}

}  // namespace
}  // namespace hooked::sweep_rows_test
