#include "hooked/analysis/heads.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "tests/analysis/two_layer_model.h"
#include "tests/support/thrown_by.h"

namespace hooked::heads_test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kHalf = 5;
constexpr double kFloat64Tolerance = 1e-12;

at::Tensor repeated() {
  return repeated_random_tokens(
      {.rows = 3, .half = kHalf, .vocab_begin = 1, .vocab_end = 11, .bos = 0, .seed = 2});
}

/// A cache of one layer whose pattern [3, 1, pos, pos] attends from each query q to q - offset, where there
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

TEST(Heads, EachDetectorKnowsItsHead) {
  const auto tokens = repeated();
  EXPECT_EQ(previous_token_scores(attending_to(1)).at({0, 0}), 1.0);
  EXPECT_EQ(previous_token_scores(attending_to(2)).at({0, 0}),
            0.1);  // only the second token looks at the first
  EXPECT_EQ(duplicate_token_scores(attending_to(kHalf), tokens).at({0, 0}), 1.0);
  EXPECT_EQ(duplicate_token_scores(attending_to(kHalf - 1), tokens).at({0, 0}), 0.0);
  EXPECT_EQ(induction_scores(attending_to(kHalf - 1), tokens).at({0, 0}), 1.0);
  EXPECT_EQ(induction_scores(attending_to(kHalf), tokens).at({0, 0}), 0.0);
}

TEST(Heads, ScoresAreMeansOfThePatternsDiagonals) {
  const auto model = random_model_of(two_layer_config());
  const auto tokens = repeated();
  const auto cache = model.run_with_cache(tokens, act::pattern).cache;
  const auto induction = induction_scores(cache, tokens);
  const auto previous = previous_token_scores(cache);
  const auto duplicate = duplicate_token_scores(cache, tokens);
  for (std::int32_t layer = 0; layer < 2; ++layer) {
    for (std::int64_t head = 0; head < 4; ++head) {
      const auto pattern = cache[act::pattern(layer).head(head)];  // [batch, query, key]
      const auto mean_of = [&](std::int64_t offset, std::int64_t queries) {
        const auto diagonal = pattern.diagonal(-offset, 1, 2);  // [batch, queries with a key that far back]
        return diagonal.narrow(1, diagonal.size(1) - queries, queries).mean().item<double>();
      };
      EXPECT_NEAR(previous.at({layer, head}), mean_of(1, 2 * kHalf), kFloat64Tolerance);
      EXPECT_NEAR(duplicate.at({layer, head}), mean_of(kHalf, kHalf), kFloat64Tolerance);
      EXPECT_NEAR(induction.at({layer, head}), mean_of(kHalf - 1, kHalf), kFloat64Tolerance);
    }
  }
}

TEST(Heads, RepeatedTokensRepeatDifferentIds) {
  const auto tokens = repeated();
  ASSERT_EQ(tokens.sizes(), at::IntArrayRef({3, 1 + 2 * kHalf}));
  for (std::int64_t row = 0; row < 3; ++row) {
    std::set<std::int64_t> ids;
    EXPECT_EQ(tokens[row][0].item<std::int64_t>(), 0);
    for (std::int64_t i = 1; i <= kHalf; ++i) {
      const auto id = tokens[row][i].item<std::int64_t>();
      EXPECT_EQ(tokens[row][i + kHalf].item<std::int64_t>(), id);
      EXPECT_TRUE(1 <= id && id < 11) << id;
      ids.insert(id);
    }
    EXPECT_EQ(ids.size(), static_cast<std::size_t>(kHalf));
  }
  EXPECT_TRUE(repeated().equal(tokens)) << "the same seed gave other tokens";
  EXPECT_THAT(text_thrown_by<ShapeError>(
                  [] { repeated_random_tokens({.half = 5, .vocab_begin = 1, .vocab_end = 4}); }),
              testing::AllOf(HasSubstr("5 different ids"), HasSubstr("from 3 ids")));
}

/// A batch of `rows` [row, pos] and the same rows with so many columns of padding on each side.
struct Padded {
  at::Tensor tokens, mask;
};

Padded padded(const at::Tensor& rows, std::int64_t left, std::int64_t right) {
  const auto fill = [&](std::int64_t columns) { return at::zeros({rows.size(0), columns}, at::kLong); };
  return {at::cat({fill(left), rows, fill(right)}, 1),
          at::cat({fill(left), at::ones_like(rows), fill(right)}, 1)};
}

TEST(Heads, PaddingCountsInNoScore) {
  const auto model = random_model_of(two_layer_config());
  const auto tokens =
      repeated_random_tokens({.rows = 2, .half = 4, .vocab_begin = 1, .vocab_end = 11, .seed = 3});
  const auto scores_of = [&](const at::Tensor& rows, const at::Tensor& mask) {
    const auto cache = model.run_with_cache({rows, {.attention_mask = mask}}, act::pattern).cache;
    return std::vector<Grid>{previous_token_scores(cache), duplicate_token_scores(cache, rows),
                             induction_scores(cache, rows)};
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

TEST(Heads, EachRowHasItsOwnScore) {
  const auto model = random_model_of(two_layer_config());
  const auto with = padded(at::cat({repeated().narrow(0, 0, 2).narrow(1, 0, 7), random_row(7, 11, 5)}), 0, 2);
  auto tokens = with.tokens.clone();
  tokens[2].narrow(0, 0, 7).copy_(at::arange(7, at::kLong));  // nothing occurs twice here
  const auto cache = model.run_with_cache({tokens, {.attention_mask = with.mask}}, act::pattern).cache;
  const auto each = duplicate_token_scores(cache, tokens, {.rows = HeadRows::each});
  ASSERT_EQ(each.values().sizes(), at::IntArrayRef({3, 2, 4}));
  EXPECT_EQ(each.axes()[0].name, "row");
  for (std::int64_t row = 0; row < 2; ++row) {
    const auto alone = duplicate_token_scores(cache.row(row), tokens[row]);
    EXPECT_LT((each.slice("row", row).values() - alone.values()).abs().max().item<double>(),
              kFloat64Tolerance);
  }
  EXPECT_TRUE(each.slice("row", 2).values().isnan().all().item<bool>());
}

TEST(Heads, RefuseWhatTheyCannotScore) {
  const auto cache = attending_to(1);
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { induction_scores(cache, random_row(4, 11, 1)); }),
              testing::AllOf(HasSubstr("[3, 11]"), HasSubstr("[1, 4]")));
  const auto all_different = at::arange(11, at::kLong).expand({3, 11});
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { duplicate_token_scores(cache, all_different); }),
              HasSubstr("more than once"));
  EXPECT_THROW(previous_token_scores(ActivationCache(2)), HookError);
}

}  // namespace
}  // namespace hooked::heads_test
