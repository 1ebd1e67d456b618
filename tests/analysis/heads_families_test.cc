// Scores of heads on the checkpoints of every family, in float64, against plain loops.

#include "hooked/analysis/heads.h"
#include "tests/analysis/head_scores_by_hand.h"
#include "tests/support/golden_model.h"

namespace hooked::heads_families_test {
namespace {

constexpr double kTolerance = 1e-10;

class HeadsOfGolden : public testing::TestWithParam<GoldenCase> {};

std::vector<std::int64_t> real_columns(const at::Tensor& tokens, const at::Tensor& mask, std::int64_t row) {
  std::vector<std::int64_t> columns;
  for (std::int64_t column = 0; column < tokens.size(1); ++column) {
    if (!mask.defined() || mask[row][column].item<std::int64_t>() != 0) columns.push_back(column);
  }
  return columns;
}

TEST_P(HeadsOfGolden, ScoresAreThoseOfPlainLoops) {
  const auto golden = read_golden(GetParam());
  const auto model = load_golden(GetParam());
  const Input input{golden.tokens,
                    {.attention_mask = golden.attention_mask,
                     .token_types = golden.token_types,
                     .decoder = {.tokens = golden.decoder_tokens}}};
  const auto cache = model.run_with_cache(input, act::pattern, {.output = Output::none}).cache;
  const bool two = model.config().has_encoder();
  for (const Stack stack : two ? std::vector{Stack::encoder, Stack::none} : std::vector{Stack::none}) {
    const bool decodes = two && stack == Stack::none;
    const auto& tokens = decodes ? golden.decoder_tokens : golden.tokens;
    const auto mask = decodes ? at::Tensor() : golden.attention_mask;
    HeadScoreOptions options{.tokens = tokens,
                             .measure = HeadMeasure::mul,
                             .exclude_bos = true,
                             .rows = HeadRows::each,
                             .stack = stack};
    const auto same = head_scores(cache, HeadScore::duplicate_token, options);
    options.measure = HeadMeasure::abs;
    const auto before = head_scores(cache, HeadScore::previous_token, options);
    options.measure = HeadMeasure::share;
    const auto entropy = head_scores(cache, HeadScore::entropy, options);
    for (std::int64_t row = 0; row < tokens.size(0); ++row) {
      const auto reals = real_columns(tokens, mask, row);
      const auto id = [&](std::int64_t column) { return tokens[row][column].item<std::int64_t>(); };
      for (std::int32_t layer = 0; layer < cache.n_layers(stack); ++layer) {
        if (!cache.contains(act::pattern.in(stack, layer).name())) {  // of a layer without attention
          EXPECT_TRUE(std::isnan(same.at({row, layer, 0}))) << layer;
          continue;
        }
        const auto patterns = cache[act::pattern.in(stack, layer)][row];
        for (std::int64_t head = 0; head < patterns.size(0); ++head) {
          const AttentionByHand seen{.pattern = patterns[head], .reals = reals, .exclude_bos = true};
          const auto near = [&](const Grid& grid, double number) {
            const double ours = grid.at({row, layer, head});
            if (std::isnan(number)) {
              EXPECT_TRUE(std::isnan(ours));
            } else {
              EXPECT_NEAR(ours, number, kTolerance)
                  << grid.title() << ' ' << row << ' ' << layer << ' ' << head;
            }
          };
          near(same, seen.score(HeadMeasure::mul, [&](auto q, auto k) { return k < q && id(k) == id(q); }));
          near(before, seen.score(HeadMeasure::abs, [](auto q, auto k) { return k == q - 1; }));
          near(entropy,
               seen.mean([](auto, auto, double share) { return share > 0 ? -share * std::log(share) : 0; }));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, HeadsOfGolden, testing::ValuesIn(golden_cases()), golden_test_name);

}  // namespace
}  // namespace hooked::heads_families_test
