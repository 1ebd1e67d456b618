#include "hooked/analysis/heads.h"

#include <cstdlib>

#include "hooked/analysis/repetition.h"
#include "tests/analysis/head_scores_by_hand.h"
#include "tests/support/tiny_model.h"

namespace hooked::heads_test {
namespace {

constexpr std::int64_t kHalf = 5;
constexpr double kFloat64Tolerance = 1e-12;

at::Tensor repeated() {
  return repeated_random_tokens(
      {.rows = 3, .half = kHalf, .vocab_begin = 1, .vocab_end = 11, .bos = 0, .seed = 2});
}

/// A cache of one layer whose pattern [3, 1, pos, pos] attends from each query q to q - offset, if there
/// is one.
ActivationCache attending_to(std::int64_t offset) {
  const std::int64_t positions = 1 + 2 * kHalf;
  auto pattern = at::zeros({3, 1, positions, positions}, at::kDouble);
  for (std::int64_t q = 0; q < positions; ++q)
    pattern.select(2, q).select(2, std::max<std::int64_t>(0, q - offset)).fill_(1);
  ActivationCache cache(1);
  cache.insert({.name = act::pattern(0).name(), .held = pattern, .positions = {}});
  return cache;
}

double score_of(const ActivationCache& cache, HeadScore score, const HeadScoreOptions& options = {}) {
  return head_scores(cache, score, options).at({0, 0});
}

TEST(Heads, EachScoreKnowsItsHead) {
  const HeadScoreOptions with{.tokens = repeated()};
  EXPECT_EQ(score_of(attending_to(1), HeadScore::previous_token), 1.0);
  // Only the second token looks at the first.
  EXPECT_EQ(score_of(attending_to(2), HeadScore::previous_token), 0.1);
  EXPECT_EQ(score_of(attending_to(0), HeadScore::current_token), 1.0);
  EXPECT_EQ(score_of(attending_to(100), HeadScore::first_token), 1.0);
  EXPECT_EQ(score_of(attending_to(kHalf), HeadScore::duplicate_token, with), 1.0);
  EXPECT_EQ(score_of(attending_to(kHalf - 1), HeadScore::duplicate_token, with), 0.0);
  EXPECT_EQ(score_of(attending_to(kHalf - 1), HeadScore::induction, with), 1.0);
  EXPECT_EQ(score_of(attending_to(kHalf), HeadScore::induction, with), 0.0);
  EXPECT_EQ(score_of(attending_to(kHalf), HeadScore::entropy), 0.0);
  EXPECT_NEAR(score_of(attending_to(2), HeadScore::distance), (0 + 1 + 9 * 2) / 11.0, kFloat64Tolerance);
}

/// A batch of `rows` [row, pos] and the same rows with that many columns of padding on each side.
struct Padded {
  at::Tensor tokens, mask;
};

Padded padded(const at::Tensor& rows, std::int64_t left, std::int64_t right) {
  const auto fill = [&](std::int64_t columns) { return at::zeros({rows.size(0), columns}, at::kLong); };
  return {at::cat({fill(left), rows, fill(right)}, 1),
          at::cat({fill(left), at::ones_like(rows), fill(right)}, 1)};
}

/// Rows of 6, 4 and 5 real tokens in 6 columns, in which tokens repeat. Padding has the id of a token of
/// row 1.
Padded ragged(bool left) {
  at::Tensor tokens = at::zeros({3, 6}, at::kLong), mask = at::zeros({3, 6}, at::kLong);
  for (const auto& [row, length] : {std::pair{0, 6}, {1, 4}, {2, 5}}) {
    const auto first = left ? 6 - length : 0;
    tokens[row]
        .narrow(0, first, length)
        .copy_(at::arange(length, at::kLong).remainder(length / 2).add((row + 2) % 3));
    mask[row].narrow(0, first, length).fill_(1);
  }
  return {tokens, mask};
}

/// The weight that a score of columns or ids gives to a key.
double wanted_by(HeadScore score, const at::Tensor& ids, const std::vector<std::int64_t>& reals,
                 std::int64_t q, std::int64_t k) {
  const auto id = [&](std::int64_t column) { return ids[column].item<std::int64_t>(); };
  switch (score) {
    case HeadScore::previous_token:
      return k == q - 1;
    case HeadScore::current_token:
      return k == q;
    case HeadScore::first_token:
      return k == reals.front();
    case HeadScore::duplicate_token:
      return k < q && id(k) == id(q);
    default:
      return k <= q && k > reals.front() && id(k - 1) == id(q) && k - 1 < q;
  }
}

double by_hand(HeadScore score, const AttentionByHand& seen, const at::Tensor& ids, HeadMeasure measure) {
  if (score == HeadScore::entropy)
    return seen.mean([](auto, auto, double share) { return share > 0 ? -share * std::log(share) : 0; });
  if (score == HeadScore::distance)
    return seen.mean(
        [](auto q, auto k, double share) { return share * static_cast<double>(std::abs(q - k)); });
  return seen.score(measure, [&](auto q, auto k) { return wanted_by(score, ids, seen.reals, q, k); });
}

struct Case {
  HeadScore score;
  HeadMeasure measure;
  bool exclude_bos, exclude_current_token;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& row : head_score_rows()) {
    for (const auto measure : {HeadMeasure::share, HeadMeasure::mul, HeadMeasure::abs}) {
      if (row.kind == HeadScoreKind::spread && measure != HeadMeasure::share) continue;
      for (const int exclusions : {0, 1, 2, 3}) {
        // The keys that are looked for are left out then, so the number is missing.
        const bool current = (exclusions & 2) != 0, bos = (exclusions & 1) != 0;
        const bool nothing_left = (row.score == HeadScore::current_token && current) ||
                                  (row.score == HeadScore::first_token && bos);
        if (nothing_left && measure == HeadMeasure::share) continue;
        all.push_back({row.score, measure, bos, current});
      }
    }
  }
  return all;
}

TEST(Heads, EveryScoreAndMeasureIsThatOfPlainLoopsOnPaddedRows) {
  auto bidirectional = two_layer_config();
  bidirectional.direction = AttentionDirection::bidirectional;
  for (const auto& config : {two_layer_config(), bidirectional}) {
    const auto model = random_model(config);
    for (const bool left : {true, false}) {
      const auto [tokens, mask] = ragged(left);
      const auto cache = model.run_with_cache({tokens, {.attention_mask = mask}}, act::pattern).cache;
      for (const auto& [score, measure, bos, current] : cases()) {
        const auto grid = head_scores(cache, score,
                                      {.tokens = tokens,
                                       .measure = measure,
                                       .exclude_bos = bos,
                                       .exclude_current_token = current,
                                       .rows = HeadRows::each});
        ASSERT_EQ(grid.values().sizes(), at::IntArrayRef({3, 2, 4}));
        for (std::int64_t row = 0; row < 3; ++row) {
          AttentionByHand seen{.pattern = cache[act::pattern(1)][row][2],
                               .reals = {},
                               .exclude_bos = bos,
                               .exclude_current_token = current};
          for (std::int64_t column = 0; column < 6; ++column) {
            if (mask[row][column].item<std::int64_t>() == 1) seen.reals.push_back(column);
          }
          EXPECT_NEAR(grid.at({row, 1, 2}), by_hand(score, seen, tokens[row], measure), kFloat64Tolerance)
              << head_score_row(score).name << " by " << static_cast<int>(measure) << ", row " << row
              << (left ? ", left" : ", right") << (bos ? ", without bos" : "")
              << (current ? ", without current" : "");
        }
      }
    }
  }
}

TEST(Heads, PaddingCountsInNoScore) {
  const auto model = random_model(two_layer_config());
  const auto tokens =
      repeated_random_tokens({.rows = 2, .half = 4, .vocab_begin = 1, .vocab_end = 11, .seed = 3});
  const auto scores_of = [&](const at::Tensor& rows, const at::Tensor& mask) {
    const auto cache = model.run_with_cache({rows, {.attention_mask = mask}}, act::pattern).cache;
    std::vector<Grid> scores;
    for (const auto& [score, measure, bos, current] : cases()) {
      scores.push_back(head_scores(
          cache, score,
          {.tokens = rows, .measure = measure, .exclude_bos = bos, .exclude_current_token = current}));
    }
    return scores;
  };
  const auto alone = scores_of(tokens, {});
  for (const auto& [left, right] : {std::pair{2, 0}, {0, 2}, {1, 2}, {0, 1}}) {
    const auto with = padded(tokens, left, right);
    const auto scores = scores_of(with.tokens, with.mask);
    for (std::size_t i = 0; i < alone.size(); ++i) {
      EXPECT_LT((scores[i].values() - alone[i].values()).abs().max().item<double>(), kFloat64Tolerance)
          << alone[i].title() << " with " << left << " left, " << right << " right";
    }
  }
}

TEST(Heads, RowsAreMeantAsTheMeasureSays) {
  const auto model = random_model(two_layer_config());
  const auto [tokens, mask] = ragged(true);
  const auto cache = model.run_with_cache({tokens, {.attention_mask = mask}}, act::pattern).cache;
  const auto scored = [&](HeadMeasure measure, HeadRows rows) {
    return head_scores(cache, HeadScore::previous_token, {.measure = measure, .rows = rows}).values();
  };
  // Queries with a token before them: 5, 3 and 4.
  const auto each = scored(HeadMeasure::share, HeadRows::each);
  const auto pooled = (each[0] * 5 + each[1] * 3 + each[2] * 4) / 12;
  EXPECT_LT((scored(HeadMeasure::share, HeadRows::mean) - pooled).abs().max().item<double>(),
            kFloat64Tolerance);
  for (const auto measure : {HeadMeasure::mul, HeadMeasure::abs}) {
    const auto mean = scored(measure, HeadRows::each).mean(0);
    EXPECT_LT((scored(measure, HeadRows::mean) - mean).abs().max().item<double>(), kFloat64Tolerance);
  }
}

TEST(Heads, EachRowHasItsOwnScore) {
  const auto model = random_model(two_layer_config());
  const auto with = padded(at::cat({repeated().narrow(0, 0, 2).narrow(1, 0, 7), random_row(7, 11, 5)}), 0, 2);
  auto tokens = with.tokens.clone();
  tokens[2].narrow(0, 0, 7).copy_(at::arange(7, at::kLong));  // nothing occurs twice here
  const auto cache = model.run_with_cache({tokens, {.attention_mask = with.mask}}, act::pattern).cache;
  const auto each =
      head_scores(cache, HeadScore::duplicate_token, {.tokens = tokens, .rows = HeadRows::each});
  ASSERT_EQ(each.values().sizes(), at::IntArrayRef({3, 2, 4}));
  EXPECT_EQ(each.axes()[0].name, "row");
  for (std::int64_t row = 0; row < 2; ++row) {
    const auto alone = head_scores(cache.row(row), HeadScore::duplicate_token, {.tokens = tokens[row]});
    EXPECT_LT((each.slice("row", row).values() - alone.values()).abs().max().item<double>(),
              kFloat64Tolerance);
  }
  EXPECT_TRUE(each.slice("row", 2).values().isnan().all().item<bool>());
}

TEST(Heads, PatternsOfOnesOwn) {
  const auto model = random_model(two_layer_config());
  const auto [tokens, mask] = ragged(true);
  const auto cache = model.run_with_cache({tokens, {.attention_mask = mask}}, act::pattern).cache;
  // The previous token as a pattern is the previous token.
  at::Tensor before = at::zeros({6, 6}, at::kLong);
  for (std::int64_t q = 1; q < 6; ++q) before[q][q - 1] = 1;
  for (const auto measure : {HeadMeasure::share, HeadMeasure::mul, HeadMeasure::abs}) {
    const auto named = head_scores(cache, HeadScore::previous_token, {.measure = measure});
    for (const auto& pattern : {before, before.expand({3, 6, 6})})
      EXPECT_TRUE(head_scores(cache, pattern, {.measure = measure}).values().equal(named.values()));
  }
  // Any numbers, other ones in each row.
  const auto weights = at::rand({3, 6, 6}, at::kDouble);
  const auto grid = head_scores(cache, weights, {.measure = HeadMeasure::abs, .rows = HeadRows::each});
  const AttentionByHand seen{.pattern = cache[act::pattern(0)][1][3], .reals = {2, 3, 4, 5}};
  EXPECT_NEAR(
      grid.at({1, 0, 3}),
      seen.score(HeadMeasure::abs, [&](auto q, auto k) { return weights[1][q][k].template item<double>(); }),
      kFloat64Tolerance);
  EXPECT_THAT(text_thrown_by<ShapeError>([&] {
                head_scores(cache, at::zeros({5, 6}));
              }),
              AllOf(HasSubstr("[6, 6] or [3, 6, 6]"), HasSubstr("got [5, 6]")));
  EXPECT_THROW(head_scores(cache, at::zeros({6, 6})), ShapeError) << "nothing is looked for";
}

TEST(Heads, LayersWithoutAPatternHaveNoNumber) {
  const auto model = random_model(two_layer_config());
  const auto cache = model.run_with_cache(repeated(), act::pattern(1)).cache;
  const auto whole = model.run_with_cache(repeated(), act::pattern).cache;
  const auto scores = head_scores(cache, HeadScore::previous_token);
  EXPECT_TRUE(scores.slice("layer", 0).values().isnan().all().item<bool>());
  EXPECT_TRUE(scores.slice("layer", 1)
                  .values()
                  .equal(head_scores(whole, HeadScore::previous_token).slice("layer", 1).values()));
  EXPECT_EQ(scores.axis("layer").places[0]->to_string(), "blocks.0.attn.hook_pattern");
}

TEST(Heads, TokensMayComeFromTheCache) {
  const auto model = random_model(two_layer_config());
  const auto cache = model.run_with_cache(repeated(), act::pattern | act::tokens).cache;
  EXPECT_TRUE(head_scores(cache, HeadScore::induction)
                  .values()
                  .equal(head_scores(cache, HeadScore::induction, {.tokens = repeated()}).values()));
}

TEST(Heads, RefuseWhatTheyCannotScore) {
  const auto cache = attending_to(1);
  EXPECT_THAT(text_thrown_by<ShapeError>(
                  [&] { head_scores(cache, HeadScore::induction, {.tokens = random_row(4, 11, 1)}); }),
              AllOf(HasSubstr("[3, 11]"), HasSubstr("[1, 4]")));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { head_scores(cache, HeadScore::induction); }),
              HasSubstr("tokens are missing"));
  const auto all_different = at::arange(11, at::kLong).expand({3, 11});
  EXPECT_THAT(text_thrown_by<ShapeError>(
                  [&] { head_scores(cache, HeadScore::duplicate_token, {.tokens = all_different}); }),
              HasSubstr("more than once"));
  EXPECT_THAT(text_thrown_by<HookError>(
                  [&] { head_scores(cache, HeadScore::entropy, {.measure = HeadMeasure::abs}); }),
              HasSubstr("the measure share"));
  EXPECT_THROW(head_scores(cache, HeadScore::previous_token, {.site = act::z}), HookError);
  EXPECT_THROW(head_scores(cache, HeadScore::first_token, {.site = act::cross_pattern}), HookError);
  EXPECT_THROW(head_scores(ActivationCache(2), HeadScore::previous_token), HookError);
  EXPECT_THAT(text_thrown_by<HookError>([] { head_score_row("inducton"); }),
              HasSubstr("nearest is induction"));

  const auto model = random_model(two_layer_config());
  const auto prefix = model.run(repeated(), {.keep_prefix = true}).prefix;
  const auto behind =
      model.run_with_cache({random_row(1, 11, 1).expand({3, 1}), {.prefix = prefix}}, act::pattern);
  EXPECT_THAT(text_thrown_by<HookError>([&] { head_scores(behind.cache, HeadScore::first_token); }),
              HasSubstr("prefix of 11 tokens"));
}

}  // namespace
}  // namespace hooked::heads_test
