// Heads scored over more rows than are run together.
#include "hooked/analysis/head_runs.h"

#include <ATen/ops/rand_like.h>
#include <ATen/ops/xlogy.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "hooked/analysis/repetition.h"
#include "tests/support/process_memory.h"
#include "tests/support/tiny_model.h"

namespace hooked::head_runs_test {
namespace {

constexpr double kFloat64Tolerance = 1e-12;
constexpr std::int64_t kRows = 250, kColumns = 11;
constexpr std::int64_t kTogether = 1024 / kColumns;  // rows of a run

class HeadRuns : public testing::Test {
 protected:
  /// Scores of a cache that holds all of these rows.
  Grid in_one_run(HeadScore score, HeadScoreOptions how, const std::vector<Edit>& edits = {},
                  std::int64_t rows = kRows) const {
    const auto some = tokens_.narrow(0, 0, rows);
    const auto cache = model_
                           .run({some, {.attention_mask = mask_.narrow(0, 0, rows)}},
                                {.edits = edits, .capture = act::pattern, .output = Output::none})
                           .cache;
    how.tokens = some;
    return head_scores(cache, score, how);
  }
  static double distance(const Grid& a, const Grid& b) {
    EXPECT_TRUE(a.values().isnan().equal(b.values().isnan()));
    return (a.values() - b.values()).nan_to_num().abs().max().item<double>();
  }

  HookedTransformer model_ = random_model(two_layer_config());
  at::Tensor tokens_ = repeated_random_tokens(
      {.rows = kRows, .half = 5, .vocab_begin = 1, .vocab_end = 11, .bos = 0, .seed = 2});
  /// Every third row has two columns of padding on its left.
  at::Tensor mask_ = [this] {
    auto mask = at::ones_like(tokens_);
    mask.slice(0, 0, kRows, 3).slice(1, 0, 2).fill_(0);
    return mask;
  }();
  Input input_{tokens_, {.attention_mask = mask_}};
};

TEST_F(HeadRuns, AreTheScoresOfAllRowsInOneRun) {
  const std::vector scores{HeadScore::previous_token, HeadScore::induction, HeadScore::first_token,
                           HeadScore::entropy};
  for (const auto measure : {HeadMeasure::share, HeadMeasure::mul, HeadMeasure::abs}) {
    for (const auto rows : {HeadRows::mean, HeadRows::each}) {
      HeadScoreOptions how{.measure = measure, .exclude_current_token = true, .rows = rows};
      const auto report = head_scores_report(model_, input_, {.scores = scores, .how = how});
      EXPECT_TRUE(report.complete);
      EXPECT_EQ(report.rows, kRows);
      ASSERT_EQ(report.scores.size(), scores.size());
      for (std::size_t i = 0; i < scores.size(); ++i) {
        if (scores[i] == HeadScore::entropy) how.measure = HeadMeasure::share;
        const auto expected = in_one_run(scores[i], how);
        EXPECT_EQ(report.scores[i].title(), expected.title());
        EXPECT_EQ(report.scores[i].axis("layer").places[1], expected.axis("layer").places[1]);
        EXPECT_LT(distance(report.scores[i], expected), kFloat64Tolerance) << expected.title();
      }
    }
  }
}

// Rows may have edits of their own, and are run one by one then.
TEST_F(HeadRuns, EditsHoldInTheRowsThatTheyName) {
  const std::vector edits{zero(act::v(0).row(7)), scale(act::q(1).head(2), 3.0)};
  const HeadScoreOptions how{.rows = HeadRows::each};
  std::vector<std::int64_t> told;
  const auto report = head_scores_report(model_, input_,
                                         {.scores = {HeadScore::previous_token},
                                          .how = how,
                                          .edits = edits,
                                          .progress = [&](const SweepProgress& now) {
                                            told.push_back(now.done);
                                            return true;
                                          }});
  EXPECT_EQ(std::ranges::count_if(told, [](std::int64_t rows) { return rows == 0; }), 2)
      << "between the two layers, before a row is done";
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_EQ(std::set<std::int64_t>(told.begin(), told.end()).size(), static_cast<std::size_t>(kRows) + 1);
  const auto expected = in_one_run(HeadScore::previous_token, how, edits);
  EXPECT_LT(distance(report.scores[0], expected), kFloat64Tolerance);
  const auto without = in_one_run(HeadScore::previous_token, how, {edits[1]});
  EXPECT_GT(std::abs(without.at({7, 1, 0}) - expected.at({7, 1, 0})), 1e-6);
  EXPECT_LT(std::abs(without.at({8, 1, 0}) - expected.at({8, 1, 0})), kFloat64Tolerance);
}

TEST_F(HeadRuns, HooksHold) {
  const auto sharpen = [](const at::Tensor& scores) { return scores * 3.0; };
  const auto report = head_scores_report(
      model_, input_, {.scores = {HeadScore::entropy}, .hooks = {Hook(act::attn_scores(0), sharpen)}});
  const auto plain = in_one_run(HeadScore::entropy, {});
  EXPECT_GT(std::abs(report.scores[0].at({0, 0}) - plain.at({0, 0})), 1e-6);
}

TEST_F(HeadRuns, GiveWhatTheyHaveWhereTheyAreEnded) {
  std::vector<std::int64_t> told;
  const auto first_run = [&](const SweepProgress& now) {
    told.push_back(now.done);
    EXPECT_EQ(now.total, kRows);
    return now.done == 0;
  };
  HeadRunsOptions options{.scores = {HeadScore::induction}, .how = {}, .progress = first_run};
  const auto mean = head_scores_report(model_, input_, options);
  EXPECT_FALSE(mean.complete);
  EXPECT_EQ(mean.rows, kTogether);
  EXPECT_EQ(told.back(), kTogether);
  EXPECT_LT(distance(mean.scores[0], in_one_run(HeadScore::induction, {}, {}, kTogether)), kFloat64Tolerance);

  options.how.rows = HeadRows::each;
  const auto each = head_scores_report(model_, input_, options).scores[0].values();  // [row, layer, head]
  EXPECT_FALSE(each.narrow(0, 0, kTogether).isnan().any().item<bool>());
  EXPECT_TRUE(each.narrow(0, kTogether, kRows - kTogether).isnan().all().item<bool>());

  // In the middle of a run it is given up: of the first there is nothing, of the second the rows before it.
  options.progress = [](const SweepProgress&) { return false; };
  const auto nothing = head_scores_report(model_, input_, options);
  EXPECT_FALSE(nothing.complete);
  EXPECT_EQ(nothing.rows, 0);
  EXPECT_TRUE(nothing.scores.empty());
  int asked = 0;
  options.how.rows = HeadRows::mean;
  options.progress = [&](const SweepProgress& now) { return now.done < kTogether || ++asked < 2; };
  const auto first = head_scores_report(model_, input_, options);
  EXPECT_EQ(first.rows, kTogether);
  EXPECT_LT(distance(first.scores[0], in_one_run(HeadScore::induction, {}, {}, kTogether)),
            kFloat64Tolerance);
  // What it throws there reaches the caller as it is.
  options.progress = [](const SweepProgress&) -> bool { throw std::runtime_error("mine"); };
  EXPECT_EQ(text_thrown_by<std::runtime_error>([&] { head_scores_report(model_, input_, options); }), "mine");
  options.how.rows = HeadRows::each;
  // With the last rows there is nothing to end.
  options.progress = [](const SweepProgress& now) { return now.done < now.total; };
  EXPECT_TRUE(head_scores_report(model_, input_, options).complete);
}

TEST_F(HeadRuns, SayWhatIsMissing) {
  EXPECT_THAT(text_thrown_by<HookError>([&] { head_scores_report(model_, input_, {}); }),
              HasSubstr("expected a score"));
  const auto prefix = model_.run(tokens_.narrow(1, 0, 3), {.keep_prefix = true}).prefix;
  EXPECT_THAT(text_thrown_by<HookError>([&] {
                head_scores_report(model_, {tokens_.narrow(1, 3, 3), {.prefix = prefix}},
                                   {.scores = {HeadScore::entropy}});
              }),
              AllOf(HasSubstr("head_scores_report"), HasSubstr("prefix")));
  const auto different = at::arange(11, at::kLong).unsqueeze(0);
  EXPECT_THAT(text_thrown_by<ShapeError>(
                  [&] { head_scores_report(model_, different, {.scores = {HeadScore::induction}}); }),
              HasSubstr("more than once"));
}

// One row that repeats a token is enough, in whichever run it is.
TEST_F(HeadRuns, ARowInALaterRunMayBeTheOnlyOneWithAPlaceToLookAt) {
  auto tokens = at::arange(11, at::kLong).repeat({kRows, 1});
  tokens[kRows - 1][10] = 3;
  const auto report = head_scores_report(model_, tokens, {.scores = {HeadScore::duplicate_token}});
  EXPECT_LT(distance(report.scores[0], head_scores(model_.run_with_cache(tokens, act::pattern).cache,
                                                   HeadScore::duplicate_token, {.tokens = tokens})),
            kFloat64Tolerance);
}

/// A model and a text that is long enough for several tiles of queries.
class LongText : public testing::Test {
 protected:
  explicit LongText(std::int64_t positions = 900) : tokens_(random_row(positions, 11, 3)) {}

  static ModelConfig long_config() {
    ModelConfig config = two_layer_config();
    config.n_ctx = 2400;
    return config;
  }
  double score(HeadScore kind, const HeadScoreOptions& how = {}) const {
    return head_scores_report(model_, tokens_, {.scores = {HeadScore::entropy, kind}, .how = how})
        .scores[1]
        .at({1, 2});
  }

  HookedTransformer model_ = random_model(long_config());
  at::Tensor tokens_;
};

TEST_F(LongText, TilesGiveWhatThePatternsGiveAsAWhole) {
  const auto cache = model_.run_with_cache(tokens_, act::pattern).cache;
  const at::Tensor pattern = cache[act::pattern(1)][0][2], ids = tokens_[0];
  const auto positions = ids.size(0);
  const at::Tensor place = at::arange(positions, at::kLong);
  const at::Tensor back = place.unsqueeze(1) - place.unsqueeze(0);  // [query, key]
  const auto share = [&](const at::Tensor& wanted) {
    return ((pattern * wanted).sum() / wanted.any(1).sum()).item<double>();
  };
  EXPECT_NEAR(score(HeadScore::previous_token), share(back.eq(1)), kFloat64Tolerance);
  EXPECT_NEAR(score(HeadScore::current_token), share(back.eq(0)), kFloat64Tolerance);
  EXPECT_NEAR(score(HeadScore::first_token), share(place.eq(0).expand({positions, positions})),
              kFloat64Tolerance);
  const at::Tensor same = ids.unsqueeze(1).eq(ids.unsqueeze(0)).logical_and(back.gt(0));
  EXPECT_NEAR(score(HeadScore::duplicate_token), share(same), kFloat64Tolerance);
  at::Tensor behind = at::zeros_like(same);
  behind.slice(1, 1).copy_(same.slice(1, 0, positions - 1));
  EXPECT_NEAR(score(HeadScore::induction), share(behind), kFloat64Tolerance);
  EXPECT_NEAR(score(HeadScore::entropy), -at::xlogy(pattern, pattern).sum(1).mean().item<double>(), 1e-11);
  EXPECT_NEAR(score(HeadScore::distance), (pattern * back).sum(1).mean().item<double>(), 1e-9);
  // Without the first token and the token itself, of all attention.
  const at::Tensor left = pattern * back.ne(0) * place.ne(0);
  EXPECT_NEAR(score(HeadScore::duplicate_token,
                    {.measure = HeadMeasure::mul, .exclude_bos = true, .exclude_current_token = true}),
              ((left * same).sum() / left.sum()).item<double>(), kFloat64Tolerance);
  const at::Tensor own = at::rand_like(pattern);
  EXPECT_NEAR(head_scores(cache, own, {.measure = HeadMeasure::abs}).at({1, 2}),
              1.0 - (pattern - own).abs().sum(1).mean().item<double>(), 1e-9);
}

class LongerText : public LongText {
 protected:
  LongerText() : LongText(2400) {}
};

TEST_F(LongerText, TakesLessMemoryThanThePatternsOfALayer) {
  if (const std::string why = why_no_peaks(); !why.empty()) GTEST_SKIP() << why;
  score(HeadScore::previous_token);  // code and threads are there from now on
  const PeakMemory held;
  score(HeadScore::induction);
  const std::int64_t of_a_layer = 4 * tokens_.numel() * tokens_.numel() * std::int64_t{sizeof(double)};
  EXPECT_LT(held.bytes(), of_a_layer * 12 / 10);
}

}  // namespace
}  // namespace hooked::head_runs_test
