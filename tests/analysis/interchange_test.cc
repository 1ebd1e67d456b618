// Interchange interventions, and the search for subspaces, in a model built by hand.
#include "hooked/analysis/interchange.h"

#include <cmath>
#include <numbers>

#include "tests/support/tiny_model.h"

namespace hooked::interchange_test {
namespace {

constexpr std::int64_t kWidth = 16, kTokens = 24, kClasses = 4;

/// A model whose stream is the embedding, unchanged: each token's class is a point of a planted plane, the
/// unembedding reads only that plane, and says the class. What else tokens have is noise that says nothing.
struct PlantedPlane {
  PlantedPlane() {
    auto config = tiny_config({.n_layers = 2,
                               .d_model = kWidth,
                               .n_ctx = 12,
                               .d_head = 6,
                               .d_mlp = 20,
                               .d_vocab = static_cast<int>(kTokens)});
    config.norm = config.final_norm = NormKind::none;
    config.dtype = at::kDouble;
    const auto generator = at::detail::createCPUGenerator(21);
    const at::Tensor all =
        std::get<0>(at::linalg_qr(at::randn({kWidth, kWidth}, generator, at::kDouble), "reduced"));
    plane = all.slice(1, 0, 2);
    const at::Tensor rest = all.slice(1, 2);
    std::vector<double> points;
    for (std::int64_t c = 0; c < kClasses; ++c) {
      points.push_back(std::cos(c * std::numbers::pi / 2 + 0.3));
      points.push_back(std::sin(c * std::numbers::pi / 2 + 0.3));
    }
    const at::Tensor codes = at::tensor(points, at::kDouble).view({kClasses, 2});
    const at::Tensor classes = at::arange(kTokens, at::kLong) % kClasses;
    at::Tensor noise = at::randn({kTokens / kClasses, kClasses, kWidth - 2}, generator, at::kDouble);
    noise = 1.4 * (noise - noise.mean(0)).view({kTokens, kWidth - 2});
    StateDict weights = random_weights(config);
    for (auto& [name, weight] : weights) weight = at::zeros_like(weight);
    weights["embed.W_E"] = codes.index_select(0, classes).matmul(plane.t()) + noise.matmul(rest.t());
    at::Tensor W_U = at::zeros({kWidth, kTokens}, at::kDouble);
    W_U.slice(1, 0, kClasses).copy_(plane.matmul(codes.t()) * 4);
    weights["unembed.W_U"] = W_U;
    model = model_of(std::move(weights), config);
    // Every pair of tokens, so that what else they have is the same, on average, for all classes.
    at::Tensor base = at::randint(kTokens, {kTokens * kTokens, 3}, generator, at::kLong),
               source = base.flip(1);
    base.select(1, -1).copy_(at::arange(kTokens * kTokens, at::kLong).floor_divide(kTokens));
    source.select(1, -1).copy_(at::arange(kTokens * kTokens, at::kLong) % kTokens);
    pairs.base = base;
    pairs.source = source;
    const at::Tensor wanted = (pairs.source.tokens.select(1, -1) % kClasses).contiguous();
    pairs.expected = Answers::by_row(
        {wanted.const_data_ptr<std::int64_t>(), wanted.const_data_ptr<std::int64_t>() + wanted.size(0)});
  }
  at::Tensor plane;
  HookedTransformer model = random_model();
  InterchangePairs pairs{.base = at::Tensor(), .source = at::Tensor(), .expected = 0};
};

TEST(JudgeInterchange, TheWholePlaneCarriesTheClass) {
  const PlantedPlane p;
  const auto whole = judge_interchange(p.model, p.pairs, {act::resid_post(0), p.plane});
  EXPECT_EQ(whole.accuracy.at({}), 1.0);
  EXPECT_NEAR(whole.accuracy.interval()->high.item<double>(), 1.0, 1e-12);
  EXPECT_NEAR(whole.accuracy.interval()->low.item<double>(), 576 / (576 + 3.841459), 1e-6);
  // A plane that nothing reads leaves the base's answer: right where both classes happen to agree.
  const at::Tensor rest =
      std::get<0>(at::linalg_qr(at::randn({kWidth, 2}, at::detail::createCPUGenerator(3), at::kDouble) -
                                    p.plane.matmul(p.plane.t().matmul(at::randn(
                                        {kWidth, 2}, at::detail::createCPUGenerator(3), at::kDouble))),
                                "reduced"));
  const auto none = judge_interchange(p.model, p.pairs, {act::resid_post(0), rest});
  const at::Tensor agree =
      (p.pairs.base.tokens.select(1, -1) % kClasses).eq(p.pairs.source.tokens.select(1, -1) % kClasses);
  EXPECT_TRUE(at::equal(none.correct.values(), agree.to(at::kDouble)));
  // Elsewhere than where it is read, too.
  auto elsewhere = p.pairs;
  elsewhere.positions = {0};
  EXPECT_LT(judge_interchange(p.model, elsewhere, {act::resid_post(0), p.plane}).accuracy.at({}), 0.5);
}

TEST(AlignSubspace, FindsThePlantedPlane) {
  const PlantedPlane p;
  const auto found =
      align_subspace(p.model, p.pairs,
                     {.place = act::resid_post(0), .dimensions = 2, .held_out = 0.15, .pairs_per_step = 32});
  EXPECT_TRUE(found.complete);
  EXPECT_LT(found.subspace.distance({act::resid_post(0), p.plane}), 0.05);
  EXPECT_GT(found.held_out.accuracy.at({}), 0.95);
  EXPECT_EQ(found.whole.accuracy.at({}), 1.0);
  EXPECT_EQ(found.rows.size(), 86U);
  EXPECT_EQ(found.held_out.correct.axis("row").labels[0], std::to_string(found.rows[0]));
  EXPECT_LT(found.loss.at({-1}), found.loss.at({0}) / 2);
  const at::Tensor basis = found.subspace.basis;
  EXPECT_LT((basis.t().matmul(basis) - at::eye(2, at::kDouble)).abs().max().item<double>(), 1e-12);
  // The same seed finds the same, to the last bit.
  const AlignmentOptions brief{.place = act::resid_post(0), .dimensions = 2, .epochs = 2, .seed = 4};
  EXPECT_TRUE(at::equal(align_subspace(p.model, p.pairs, brief).subspace.basis,
                        align_subspace(p.model, p.pairs, brief).subspace.basis));
}

/// A random model, with pairs of different lengths.
struct RandomPairs {
  explicit RandomPairs() {
    auto config = two_layer_config();
    config.dtype = at::kDouble;
    model = random_model(config);
    const at::Tensor mask = at::ones({3, 8}, at::kLong);
    mask[1].slice(0, 0, 3).fill_(0);
    pairs.base = Input(random_tokens(config, {3, 8}), {.attention_mask = mask});
    pairs.source = random_tokens(config, {3, 6}, 5);
    pairs.positions = {Position("place", {4, 5, 6}), Position::last()};
    pairs.source_positions = {2, Position::last()};
    pairs.expected = 7;
  }
  HookedTransformer model = random_model();
  InterchangePairs pairs{.base = at::Tensor(), .source = at::Tensor(), .expected = 0};
};

TEST(Interchange, IsTheSameAsEditsAndByHand) {
  const RandomPairs r;
  for (const Address& place : {Address(act::resid_post(0)), act::z(1).head(2)}) {
    const auto run = r.model.run_with_cache(r.pairs.source, act::everything).cache;
    const at::Tensor all = run[place];
    const at::Tensor source = at::stack({all.select(1, 2), all.select(1, -1)}, 1);
    const at::Tensor basis = std::get<0>(at::linalg_qr(
        at::randn({source.size(2), 3}, at::detail::createCPUGenerator(2), at::kDouble), "reduced"));
    const Subspace subspace{place, basis};
    const auto report = judge_interchange(r.model, r.pairs, subspace);
    const auto score = log_probability(7).score(
        r.model, r.pairs.base,
        {.edits = interchange(r.model, subspace, source, r.pairs.base, r.pairs.positions)});
    EXPECT_LT((report.objective.values() - score).abs().max().item<double>(), 1e-12);
    // By hand: base + (source - base) P P^T.
    const at::Tensor base = r.model.run_with_cache(r.pairs.base, act::everything).cache[place];
    at::Tensor value = base.clone();
    const std::vector<std::vector<std::int64_t>> columns{{4, 7}, {5, 7}, {6, 7}};
    for (int row = 0; row < 3; ++row)
      for (int i = 0; i < 2; ++i) {
        const at::Tensor here = base[row][columns[row][i]];
        value[row][columns[row][i]].copy_(here + (source[row][i] - here).matmul(basis).matmul(basis.t()));
      }
    const auto by_hand =
        log_probability(7).score(r.model, r.pairs.base, {.edits = set(EditTarget(place), value)});
    EXPECT_LT((by_hand - score).abs().max().item<double>(), 1e-12);
    EXPECT_GT((by_hand - log_probability(7).score(r.model, r.pairs.base)).abs().max().item<double>(), 1e-6);
  }
}

TEST(AlignSubspace, LearnsAtAHeadAndCanBeEnded) {
  const RandomPairs r;
  const AlignmentOptions options{
      .place = act::z(0).head(1), .dimensions = 2, .epochs = 20, .pairs_per_step = 1, .learning_rate = 0.05};
  const auto found = align_subspace(r.model, r.pairs, options);
  EXPECT_LT(found.loss.at({-1}), found.loss.at({0}));
  auto ending = options;
  std::int64_t calls = 0;
  ending.progress = [&](const SweepProgress&) { return ++calls < 3; };
  const auto ended = align_subspace(r.model, r.pairs, ending);
  EXPECT_FALSE(ended.complete);
  EXPECT_EQ(calls, 3);
  EXPECT_TRUE(std::isnan(ended.loss.at({-1})));
}

TEST(AlignSubspace, RefusesWhatDoesNotFit) {
  const RandomPairs r;
  const auto align = [&](const AlignmentOptions& options) { align_subspace(r.model, r.pairs, options); };
  EXPECT_THAT(text_thrown_by<HookError>([&] { align({.place = act::z(0)}); }),
              HasSubstr("is not a vector at each position"));
  EXPECT_THAT(text_thrown_by<HookError>([&] { align({.place = act::pattern(0)}); }),
              HasSubstr("is not a vector at each position"));
  EXPECT_THAT(text_thrown_by<ConfigError>([&] { align({.dimensions = 17}); }), HasSubstr("1 to 16, got 17"));
  EXPECT_THAT(text_thrown_by<ConfigError>([&] { align({.held_out = 0}); }), HasSubstr("held_out"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] {
                align({.start = at::ones({4, 1})});
              }),
              HasSubstr("expected [16, 1], got [4, 1]"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] {
                judge_interchange(r.model, r.pairs, {act::resid_post(0), at::ones({16, 2}, at::kDouble)});
              }),
              HasSubstr("not orthonormal"));
  auto pairs = r.pairs;
  pairs.source = pairs.source.tokens.slice(0, 1);
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { align_subspace(r.model, pairs); }),
              HasSubstr("expected 3 rows twice, got 2"));
}

}  // namespace
}  // namespace hooked::interchange_test
