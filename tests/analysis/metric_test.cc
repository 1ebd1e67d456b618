#include "hooked/analysis/metric.h"

#include "tests/support/tiny_model.h"

namespace hooked::metric_test {
namespace {

constexpr double kFloat64Tolerance = 1e-12;

at::Tensor counting_logits() { return at::arange(2 * 1 * 5, at::kDouble).view({2, 1, 5}); }

/// Three rows of 6 columns: one of all tokens, one padded by 2 on the left, one by 1 on the right.
Input padded_rows() {
  const auto mask =
      at::tensor({1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}, at::kLong).view({3, 6});
  return {at::cat({random_row(6, 11, 1), random_row(6, 11, 2), random_row(6, 11, 3)}),
          {.attention_mask = mask}};
}

/// The first and the last real column of each row.
constexpr std::int64_t kFirst[] = {0, 2, 0}, kLast[] = {5, 5, 4};

/// One row's logits as numbers, and results computed from them by plain loops.
class PlainLogits {
 public:
  explicit PlainLogits(const at::Tensor& logits) {  // [vocab]
    for (std::int64_t i = 0; i < logits.size(0); ++i) logits_.push_back(logits[i].item<double>());
  }
  double operator[](std::int64_t token) const { return logits_[static_cast<std::size_t>(token)]; }
  double share(std::int64_t token) const {
    double sum = 0;
    for (const double x : logits_) sum += std::exp(x - (*this)[token]);
    return 1 / sum;
  }
  double rank(std::int64_t token) const {
    return static_cast<double>(
        std::count_if(logits_.begin(), logits_.end(), [&](double x) { return x > (*this)[token]; }));
  }
  std::int64_t size() const { return static_cast<std::int64_t>(logits_.size()); }

 private:
  std::vector<double> logits_;
};

class MetricOfARun : public testing::Test {
 protected:
  PlainLogits logits(std::int64_t row, std::int64_t column) const { return PlainLogits(whole_[row][column]); }
  double score(const Metric& metric, std::int64_t row) const {
    return metric.score(model_, input_)[row].item<double>();
  }

  HookedTransformer model_ = random_model(two_layer_config());
  Input input_ = padded_rows();
  at::Tensor whole_ = model_(input_);
};

TEST_F(MetricOfARun, ScoresEachRowsLastRealToken) {
  for (std::int64_t row = 0; row < 3; ++row) {
    const auto at_last = logits(row, kLast[row]);
    EXPECT_NEAR(score(logit(3), row), at_last[3], kFloat64Tolerance);
    EXPECT_NEAR(score(logit_difference(3, 4), row), at_last[3] - at_last[4], kFloat64Tolerance);
    EXPECT_NEAR(score(probability(3), row), at_last.share(3), kFloat64Tolerance);
    EXPECT_NEAR(score(log_probability(3), row), std::log(at_last.share(3)), kFloat64Tolerance);
    for (std::int64_t token = 0; token < 11; ++token) {
      EXPECT_EQ(score(rank(token), row), at_last.rank(token));
      EXPECT_EQ(score(top1(token), row), at_last.rank(token) == 0 ? 1.0 : 0.0);
    }
  }
}

TEST_F(MetricOfARun, EachRowMayHaveItsOwnAnswersAndPlace) {
  const Position subject("subject", {1, 4, 3});
  const auto answers = Answers::by_row({7, 2, 9}), against = Answers::by_row({1, 2, 3});
  const std::int64_t columns[] = {1, 4, 3};
  for (std::int64_t row = 0; row < 3; ++row) {
    const auto at_subject = logits(row, columns[row]);
    const auto answer = answers.of_row(row)[0], other = against.of_row(row)[0];
    EXPECT_NEAR(score(logit_difference(answers, against, subject), row),
                at_subject[answer] - at_subject[other], kFloat64Tolerance);
    EXPECT_NEAR(score(log_probability(answers, subject), row), std::log(at_subject.share(answer)),
                kFloat64Tolerance);
  }
}

TEST_F(MetricOfARun, SetsCountTogether) {
  const auto sets = Answers::sets_by_row({{3}, {4, 5, 6}, {0, 10}});
  for (std::int64_t row = 0; row < 3; ++row) {
    const auto at_last = logits(row, kLast[row]);
    double sum = 0, share = 0, best = 11;
    for (const auto token : sets.of_row(row)) {
      sum += at_last[token];
      share += at_last.share(token);
      best = std::min(best, at_last.rank(token));
    }
    const auto count = static_cast<double>(sets.of_row(row).size());
    EXPECT_NEAR(score(logit(sets), row), sum / count, kFloat64Tolerance);
    EXPECT_NEAR(score(logit_difference(sets, 1), row), sum / count - at_last[1], kFloat64Tolerance);
    EXPECT_NEAR(score(probability(sets), row), share, kFloat64Tolerance);
    EXPECT_NEAR(score(log_probability(sets), row), std::log(share), kFloat64Tolerance);
    EXPECT_EQ(score(rank(sets), row), best);
    EXPECT_EQ(score(top1(sets), row), best == 0 ? 1.0 : 0.0);
  }
}

TEST_F(MetricOfARun, ATokenThatIsWrittenTwiceCountsOnce) {
  const auto once = Answers::any_of({7, 8}), twice = Answers::any_of({7, 7, 8});
  EXPECT_EQ(twice.of_row(0), (std::vector<std::int64_t>{7, 8}));
  EXPECT_EQ(twice, once);
  const auto rows = Answers::sets_by_row({{7, 7}, {8, 7, 8, 7}, {3}});
  EXPECT_EQ(rows, Answers::sets_by_row({{7}, {8, 7}, {3}}));
  for (std::int64_t row = 0; row < 3; ++row) {
    const auto at_last = logits(row, kLast[row]);
    EXPECT_NEAR(score(logit(twice), row), (at_last[7] + at_last[8]) / 2, kFloat64Tolerance);
    EXPECT_NEAR(score(probability(twice), row), at_last.share(7) + at_last.share(8), kFloat64Tolerance);
    EXPECT_NEAR(score(logit_difference(1, twice), row), at_last[1] - (at_last[7] + at_last[8]) / 2,
                kFloat64Tolerance);
  }
}

TEST_F(MetricOfARun, LossIsTheMeanOverRealPredictions) {
  const auto scores = loss().score(model_, input_);
  for (std::int64_t row = 0; row < 3; ++row) {
    double sum = 0;
    for (auto column = kFirst[row]; column < kLast[row]; ++column)
      sum -= std::log(logits(row, column).share(input_.tokens[row][column + 1].item<std::int64_t>()));
    EXPECT_NEAR(scores[row].item<double>(), sum / static_cast<double>(kLast[row] - kFirst[row]),
                kFloat64Tolerance);
  }
  const auto alone = loss().score(model_, input_.tokens[0]);
  EXPECT_NEAR(alone.item<double>(), scores[0].item<double>(), kFloat64Tolerance);
  EXPECT_NEAR(alone.item<double>(),
              model_.run(input_.tokens[0], {.output = Output::loss}).loss().item<double>(),
              kFloat64Tolerance);
}

TEST_F(MetricOfARun, DivergencesCompareWithAnotherRun) {
  const RunOptions other{.edits = {zero(act::z(1).head(0))}};
  const auto reference = model_.run(input_, other).logits();
  const auto kl = [](const PlainLogits& p, const PlainLogits& q) {
    double sum = 0;
    for (std::int64_t i = 0; i < p.size(); ++i)
      sum += p.share(i) * (std::log(p.share(i)) - std::log(q.share(i)));
    return sum;
  };
  const auto js = [](const PlainLogits& p, const PlainLogits& q) {
    double sum = 0;
    for (std::int64_t i = 0; i < p.size(); ++i) {
      const double a = p.share(i), b = q.share(i), mean = (a + b) / 2;
      sum += (a * std::log(a / mean) + b * std::log(b / mean)) / 2;
    }
    return sum;
  };
  const auto kl_last =
      kl_divergence(logits_at(model_, input_, {Position::last()}, other)).score(model_, input_);
  const auto js_last =
      js_divergence(logits_at(model_, input_, {Position::last()}, other)).score(model_, input_);
  const auto kl_all = kl_divergence(logits_at(model_, input_, {}, other), {}).score(model_, input_);
  for (std::int64_t row = 0; row < 3; ++row) {
    const PlainLogits p(reference[row][kLast[row]]), q = logits(row, kLast[row]);
    EXPECT_NEAR(kl_last[row].item<double>(), kl(p, q), kFloat64Tolerance);
    EXPECT_NEAR(js_last[row].item<double>(), js(p, q), kFloat64Tolerance);
    double sum = 0;
    for (auto column = kFirst[row]; column <= kLast[row]; ++column)
      sum += kl(PlainLogits(reference[row][column]), logits(row, column));
    EXPECT_NEAR(kl_all[row].item<double>(), sum / static_cast<double>(kLast[row] - kFirst[row] + 1),
                kFloat64Tolerance);
    EXPECT_GT(kl_last[row].item<double>(), 1e-6);
  }
  // A reference of other rows says nothing about these.
  const auto five = at::cat({logits_at(model_, input_), logits_at(model_, input_).narrow(0, 0, 2)});
  EXPECT_THROW(kl_divergence(five).score(model_, input_), ShapeError);
  EXPECT_THROW(js_divergence(five.narrow(0, 0, 2)).score(model_, input_), ShapeError);
  const auto itself = kl_divergence(logits_at(model_, input_)).score(model_, input_);
  EXPECT_LT(itself.abs().max().item<double>(), kFloat64Tolerance);
}

TEST_F(MetricOfARun, ATokenWithoutProbabilityAddsNothingToADivergence) {
  auto reference = logits_at(model_, input_);
  reference.select(2, 4).fill_(-std::numeric_limits<double>::infinity());
  EXPECT_FALSE(kl_divergence(reference).score(model_, input_).isnan().any().item<bool>());
  EXPECT_LT(js_divergence(reference).score(model_, input_).max().item<double>(), std::log(2.0));
}

TEST_F(MetricOfARun, CallablesGetTheirPositionsInTheirOrder) {
  const Metric metric(
      [](const at::Tensor& logits) {
        return logits.select(2, 3).mul(at::tensor({100.0, 10.0, 1.0}, at::kDouble)).sum(1);
      },
      {Position("a", {4, 3, 2}), 3, Position("a", {4, 3, 2})}, "weighted");
  for (std::int64_t row = 0; row < 3; ++row) {
    const std::int64_t a[] = {4, 3, 2};
    EXPECT_NEAR(score(metric, row), 101 * logits(row, a[row])[3] + 10 * logits(row, 3)[3], 1e-10);
  }
}

TEST_F(MetricOfARun, OnlyTheAnswersThatItReadsAreUnembedded) {
  const auto bound = logit_difference(Answers::by_row({7, 3, 7}), Answers::any_of({9, 1})).on(model_, input_);
  EXPECT_EQ(bound.logit_tokens(), std::vector<std::int64_t>({1, 3, 7, 9}));
  const auto run = model_.run(input_, bound.needs());
  EXPECT_EQ(run.logits().size(2), 4);
  const auto whole = model_.run(input_, {.logit_positions = bound.logit_positions()});
  EXPECT_LT((bound(run) - bound(whole)).abs().max().item<double>(), 1e-12);
  EXPECT_EQ(bound.of_row(1).logit_tokens(), std::vector<std::int64_t>({1, 3, 9}));
  for (const auto& metric : {probability(3), rank(3), top1(3), loss()}) {
    EXPECT_EQ(metric.on(model_, input_).logit_tokens(), std::nullopt) << metric.name();
  }
}

// Nothing is larger than NaN, but that is no first rank.
TEST_F(MetricOfARun, RanksAmongNumbersThatAreNotAreNotNumbers) {
  const Edits lost = set("resid_post1[batch=1]", std::nan(""));
  for (const auto& metric : {rank(3), top1(3)}) {
    const at::Tensor plain = metric.score(model_, input_);
    const at::Tensor scores = metric.score(model_, input_, {.edits = lost});
    EXPECT_TRUE(std::isnan(scores[1].item<double>())) << metric.name();
    for (const int row : {0, 2}) EXPECT_EQ(scores[row].item<double>(), plain[row].item<double>());
  }
  const auto cache = model_.run_with_cache(input_, act::defaults, {.edits = lost}).cache;
  const at::Tensor ranks =
      logit_lens(model_, cache, {.tokens = {3}}).ranks.values();  // [row, token, point, pos]
  EXPECT_TRUE(std::isnan(ranks[1][0][-1].max().item<double>()));
  EXPECT_FALSE(ranks[0].isnan().all().item<bool>());
}

TEST_F(MetricOfARun, LogitsOfOtherTokensAreNotTakenForItsOwn) {
  using List = std::vector<std::int64_t>;
  const auto bound = logit_difference(3, 7).on(model_, input_);
  const auto with = [&](const std::optional<List>& tokens, const std::optional<List>& positions) {
    return bound(model_.run(input_, {.logit_positions = positions, .logit_tokens = tokens}));
  };
  const auto expected = bound(model_.run(input_, bound.needs()));
  for (const List& tokens : {List{7, 3}, List{9, 3, 1, 7}})
    EXPECT_LT((with(tokens, std::nullopt) - expected).abs().max().item<double>(), 1e-12);
  EXPECT_THROW(with(List{3, 8}, bound.logit_positions()), ShapeError) << "as many tokens, but others";
  EXPECT_THROW(with(std::nullopt, List{1}), ShapeError) << "as many columns, but others";
  EXPECT_THROW(probability(3).on(model_, input_)(model_.run(input_, bound.needs())), ShapeError);
  EXPECT_THROW(bound(model_.run(input_, bound.needs()).logits().slice(2, 0, 1)), ShapeError);
  RunOptions other{.logit_tokens = List{3, 8},
                   .gradients = GradientRequest{.of = act::resid_pre(0), .of_run = bound}};
  EXPECT_THROW(model_.run(input_, other), HookError);
}

TEST_F(MetricOfARun, AnswersThatAreAllItReadsMustBeThere) {
  const auto none = [](const MetricInput& run) { return run.logits.select(2, 0).select(1, 0); };
  EXPECT_THROW(Metric({.name = "none", .function = none, .reads_answers_only = true}), HookError);
}

TEST_F(MetricOfARun, OnlyTheColumnsThatARowNeedsAreUnembedded) {
  const auto bound = logit(3, Position("a", {4, 3, 4})).on(model_, input_);
  EXPECT_EQ(bound.logit_positions(), std::vector<std::int64_t>({3, 4}));
  EXPECT_EQ(loss().on(model_, input_).logit_positions(), std::nullopt);
  const auto run = model_.run(input_, bound.needs());
  EXPECT_EQ(run.logits().size(1), 2);
  const auto some = bound.of_rows({2, 0, 2});
  const auto rows = at::tensor({2, 0, 2}, at::kLong);
  const auto scores = some(run.logits().index_select(0, rows));
  EXPECT_TRUE(scores.equal(bound(run).index_select(0, rows)));
  EXPECT_THROW(bound.of_rows({3}), ShapeError);
}

TEST_F(MetricOfARun, RowsKeepTheirOwnAnswersAndReferences) {
  const auto rows = at::tensor({2, 0}, at::kLong);
  const auto reference = logits_at(model_, input_, {Position::last()}, {.edits = {zero(act::z(0).head(1))}});
  for (const auto& metric : {logit(Answers::by_row({7, 2, 9})), kl_divergence(reference),
                             rank(Answers::by_row({7, 2, 9})), loss()}) {
    const auto bound = metric.on(model_, input_);
    const auto run = model_.run(input_, bound.needs());
    EXPECT_TRUE(
        bound.of_rows({2, 0})(run.logits().index_select(0, rows)).equal(bound(run).index_select(0, rows)))
        << metric.name();
  }
}

TEST_F(MetricOfARun, MayReadActivations) {
  const auto cache = model_.run_with_cache(input_).cache;
  const auto given = attention(act::pattern(1).head(2), Position::last(), Position("key", {1, 3, 0}));
  const std::int64_t keys[] = {1, 3, 0};
  const auto direction = at::arange(16, at::kDouble);
  const auto along = projection(act::resid_post(0), direction, Position("at", {1, 3, 0}));
  const auto largest = Metric::of_activations(
      act::post(0),
      [](const ActivationCache& run) {
        return run[act::post(0)].amax({1, 2});
      },
      "neuron");
  for (std::int64_t row = 0; row < 3; ++row) {
    EXPECT_NEAR(score(given, row), cache[act::pattern(1)][row][2][kLast[row]][keys[row]].item<double>(),
                kFloat64Tolerance);
    EXPECT_NEAR(score(along, row), cache[act::resid_post(0)][row][keys[row]].dot(direction).item<double>(),
                1e-10);
    EXPECT_NEAR(score(largest, row), cache[act::post(0)][row].max().item<double>(), kFloat64Tolerance);
  }
  EXPECT_EQ(given.on(model_, input_).needs().output, Output::none);
  EXPECT_THAT(
      text_thrown_by<HookError>([&] { attention(act::pattern(1), 1, 0).score(model_, input_.tokens[0]); }),
      HasSubstr("pattern of one head"));
  EXPECT_THAT(text_thrown_by<ShapeError>(
                  [&] { projection(act::resid_post(0), at::zeros({3}), 3).score(model_, input_); }),
              AllOf(HasSubstr("expected [16]"), HasSubstr("got [3]")));
}

TEST_F(MetricOfARun, CountsTheColumnsOfAPrefix) {
  const auto tokens = input_.tokens.narrow(0, 0, 1);
  const auto prefix = model_.run(tokens.narrow(1, 0, 2), {.keep_prefix = true}).prefix;
  const Input rest{tokens.narrow(1, 2, 4), {.prefix = prefix}};
  EXPECT_NEAR(logit(3, 4).score(model_, rest).item<double>(), logits(0, 4)[3], kFloat64Tolerance);
  const auto pattern = attention(act::pattern(1).head(2), 4, 3);
  EXPECT_NEAR(pattern.score(model_, rest).item<double>(), pattern.score(model_, tokens).item<double>(),
              kFloat64Tolerance);
}

TEST_F(MetricOfARun, RefusesWhatDoesNotFit) {
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { logit(3, -1).score(model_, input_); }),
              AllOf(HasSubstr("padding in row 2"), HasSubstr("`last` is the last one of every row")));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { logit(11).score(model_, input_); }),
              AllOf(HasSubstr("[logit]"), HasSubstr("0 to 10")));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] {
                logit(Answers::by_row({1, 2})).score(model_, input_);
              }),
              HasSubstr("answers for 2 rows"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] {
                kl_divergence(at::zeros({2, 1, 11})).score(model_, input_);
              }),
              HasSubstr("expected a run of its 2 rows, got 3"));
  EXPECT_THAT(text_thrown_by<ShapeError>([] { kl_divergence(at::zeros({11})); }), HasSubstr("logits_at"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] {
                logit(3).on(model_, input_)(at::zeros({3, 6, 11}));
              }),
              AllOf(HasSubstr("[3, 2, vocab]"), HasSubstr("needs()")));
}

// The gradient of a metric by its own positions, against autograd's of the whole logits.
class MetricsGradient : public MetricOfARun {
 protected:
  void expect_gradient(const Metric& metric, const LogitMetric& asked, const Input& input) {
    const GradientRequest by_positions{.of = act::resid_pre(0), .metric = asked};
    const auto run = model_.run(input, {.gradients = by_positions});
    const auto bound = metric.on(model_, input);
    const LogitMetric by_all = [&](const at::Tensor& logits) {
      const auto columns = bound.logit_positions();
      return bound(columns ? logits.index_select(1, at::tensor(*columns, at::kLong)) : logits).sum();
    };
    const auto whole =
        model_.run(input, {.gradients = GradientRequest{.of = act::resid_pre(0), .metric = by_all}});
    const auto difference =
        (run.gradients[act::resid_pre(0)] - whole.gradients[act::resid_pre(0)]).abs().max();
    EXPECT_LT(difference.item<double>(), kFloat64Tolerance) << metric.name();
    EXPECT_NEAR(run.metric().item<double>(), metric.score(model_, input).sum().item<double>(), 1e-10);
    EXPECT_GT(whole.gradients[act::resid_pre(0)].abs().max().item<double>(), 1e-6);
  }
};

TEST_F(MetricsGradient, ReadsTheDeclaredPositionsWhateverTheirOrder) {
  const Metric twice(
      [](const at::Tensor& logits) {
        return logits.select(2, 3).mul(at::tensor({9.0, 3.0, 1.0}, at::kDouble)).sum(1);
      },
      {3, 1, 3}, "twice");
  const Input plain = input_.tokens;
  expect_gradient(twice, twice, plain);
  expect_gradient(twice, twice.on(model_, plain), plain);
  for (const auto& metric :
       {logit_difference(Answers::by_row({7, 2, 9}), 1, Position("a", {4, 3, 2})),
        log_probability(Answers::sets_by_row({{1}, {2, 3}, {4}})), loss(),
        kl_divergence(logits_at(model_, input_, {3, Position::last()}, {.edits = {zero(act::z(1))}}),
                      {3, Position::last()})})
    expect_gradient(metric, metric.on(model_, input_), input_);
}

TEST_F(MetricsGradient, IsRefusedWhereItSaysNothing) {
  const auto refusal = [](const Metric& metric) {
    return text_thrown_by<HookError>([&] { static_cast<void>(static_cast<LogitMetric>(metric)); });
  };
  EXPECT_THAT(refusal(rank(3)), HasSubstr("moves in steps"));
  EXPECT_THAT(refusal(top1(3)), HasSubstr("moves in steps"));
  EXPECT_THAT(refusal(attention(act::pattern(0).head(0), 1, 0)), HasSubstr("reads activations"));
  EXPECT_THAT(refusal(logit(3, Position("subject", {1, 2}))),
              AllOf(HasSubstr("'subject'"), HasSubstr("metric.on(model, input)")));
  const Metric unbound = logit(3);
  EXPECT_THROW(model_.run(input_, {.gradients = GradientRequest{.of = act::resid_pre(0), .metric = unbound}}),
               ShapeError)
      << "-1 is padding in a row";
}

// The model that a metric meets turns texts into ids.
TEST(Metric, TakesAnswersAsTexts) {
  const auto model = HookedTransformer::load(HOOKED_SOURCE_DIR "/examples/toy_model");
  const std::string prompt = "When John and Mary went to the shop, John gave a bag to";
  const auto mary = model.to_token(" Mary"), john = model.to_token(" John");
  const auto by_texts = logit_difference(" Mary", " John").score(model, prompt);
  EXPECT_TRUE(at::equal(by_texts, logit_difference(mary, john).score(model, prompt)));
  const auto tokens = model.to_tokens(prompt).expand({2, -1});
  const auto by_row = log_probability(Answers::texts_by_row({" Mary", " John"})).score(model, tokens);
  EXPECT_TRUE(at::equal(by_row, log_probability(Answers::by_row({mary, john})).score(model, tokens)));
  EXPECT_EQ(top1(" Mary").score(model, prompt).item<double>(), 1.0);
  EXPECT_THAT(text_thrown_by<TokenizerError>([&] { logit("Mary went").score(model, prompt); }),
              HasSubstr("not one token"));
  EXPECT_THAT(text_thrown_by<HookError>([&] {
                logit(" Mary")(at::zeros({1, 1, 784}));
              }),
              HasSubstr("model.to_token(\" Mary\")"));
}

TEST(Metric, ReadsLogitsAtItsPositions) {
  const auto scores = logit_difference(4, 1)(counting_logits());
  EXPECT_EQ(scores.sizes(), at::IntArrayRef({2}));
  EXPECT_EQ(scores[1].item<double>(), 3.0);
  const Metric metric = [](const at::Tensor& logits) { return logits.select(1, 0).amax(1); };
  EXPECT_EQ(metric(counting_logits())[1].item<double>(), 9.0);
  EXPECT_TRUE(metric.definition().positions == std::vector<Position>({Position::last()}));
}

TEST(Metric, RefusesTokensOutsideTheVocabulary) {
  EXPECT_THAT(text_thrown_by<ShapeError>([] { logit_difference(-3, 1)(counting_logits()); }),
              HasSubstr("-3"));
  EXPECT_THAT(text_thrown_by<ShapeError>([] { log_probability(5)(counting_logits()); }),
              AllOf(HasSubstr("token id 5"), HasSubstr("0 to 4")));
}

TEST(Metric, RefusesLogitsOfOtherPositions) {
  const auto error = thrown_by<ShapeError>([] { logit_difference(0, 1)(at::zeros({2, 3, 5})); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), "logit difference");
  EXPECT_THAT(error->what(), AllOf(HasSubstr("[row, 1, vocab]"), HasSubstr("[2, 3, 5]")));
  EXPECT_THAT(text_thrown_by<ShapeError>([] {
                loss()(at::zeros({2, 3, 5}));
              }),
              HasSubstr("the metric's score()"));
}

TEST(Metric, RefusesACallableThatGivesNoNumberPerRow) {
  const Metric sum([](const at::Tensor& logits) { return logits.sum(); }, {-1}, "sum");
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { sum(counting_logits()); }),
              AllOf(HasSubstr("[sum]"), HasSubstr("expected shape [2]"), HasSubstr("got []")));
}

TEST(Metric, IsTheEnginesMetricForGradients) {
  const auto model = random_model(two_layer_config());
  const auto tokens = random_row(6, 11, 1);
  const auto metric = logit_difference(3, 4, -2);
  const auto logits = model(tokens);
  const double difference = (logits[0][4][3] - logits[0][4][4]).item<double>();
  const GradientRequest request{.of = act::unembed_out, .metric = metric};
  const auto check = [&](const RunResult& run, std::int64_t positions, std::int64_t place) {
    const auto gradient = run.gradients[act::unembed_out];  // [1, position, vocab]
    ASSERT_EQ(gradient.size(1), positions);
    auto expected = at::zeros_like(gradient);
    expected[0][place][3] = 1;
    expected[0][place][4] = -1;
    EXPECT_TRUE(gradient.equal(expected));
    EXPECT_NEAR(run.metric().item<double>(), difference, kFloat64Tolerance);
  };
  check(model.run(tokens, {.gradients = request}), 1, 0);
  check(model.run(tokens, {.logit_positions = {{0, 4, 5}}, .gradients = request}), 3, 1);
  check(model.run(tokens, {.output = Output::loss, .gradients = request}), 6, 4);
  EXPECT_THAT(
      text_thrown_by<HookError>([&] { model.run(tokens, {.logit_positions = {{0}}, .gradients = request}); }),
      HasSubstr("position 4"));
}

}  // namespace
}  // namespace hooked::metric_test
