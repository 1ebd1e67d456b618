#include "hooked/analysis/metric.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "tests/analysis/two_layer_model.h"
#include "tests/support/thrown_by.h"

namespace hooked::metric_test {
namespace {

using testing::HasSubstr;

at::Tensor counting_logits() { return at::arange(2 * 1 * 5, at::kDouble).view({2, 1, 5}); }

TEST(Metric, LogitDifferenceSubtractsTheOtherTokensLogit) {
  const auto metric = logit_difference(4, 1);
  const auto scores = metric(counting_logits());
  EXPECT_EQ(scores.sizes(), at::IntArrayRef({2}));
  EXPECT_EQ(scores[0].item<double>(), 3.0);
  EXPECT_EQ(scores[1].item<double>(), 3.0);
  EXPECT_EQ(metric.positions(), std::vector<std::int64_t>({-1}));
}

TEST(Metric, LogProbabilityIsTheSoftmaxsLogarithm) {
  const auto scores = log_probability(2, 3)(counting_logits());
  double sum = 0;
  for (int i = 0; i < 5; ++i) sum += std::exp(i - 2.0);
  EXPECT_NEAR(scores[1].item<double>(), -std::log(sum), 1e-14);  // float64
}

TEST(Metric, AnyCallableIsAMetric) {
  const Metric metric = [](const at::Tensor& logits) { return logits.select(1, 0).amax(1); };
  EXPECT_EQ(metric(counting_logits())[1].item<double>(), 9.0);
  EXPECT_EQ(metric.positions(), std::vector<std::int64_t>({-1}));
}

TEST(Metric, RefusesTokensOutsideTheVocabulary) {
  EXPECT_THAT(text_thrown_by<ShapeError>([] { logit_difference(-3, 1); }), HasSubstr("-3"));
  EXPECT_THAT(text_thrown_by<ShapeError>([] { log_probability(5)(counting_logits()); }),
              testing::AllOf(HasSubstr("token id 5"), HasSubstr("below 5")));
}

TEST(Metric, RefusesLogitsOfOtherPositions) {
  const auto error = thrown_by<ShapeError>([] { logit_difference(0, 1)(at::zeros({2, 3, 5})); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), "logit difference");
  EXPECT_THAT(error->what(), testing::AllOf(HasSubstr("[row, 1, vocab]"), HasSubstr("[2, 3, 5]")));
}

TEST(Metric, RefusesACallableThatGivesNoNumberPerRow) {
  const Metric sum([](const at::Tensor& logits) { return logits.sum(); }, {-1}, "sum");
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { sum(counting_logits()); }),
              testing::AllOf(HasSubstr("[sum]"), HasSubstr("expected shape [2]"), HasSubstr("got []")));
}

TEST(Metric, NeedsAPosition) {
  const auto make = [] { Metric([](const at::Tensor& logits) { return logits; }, {}, "nothing"); };
  EXPECT_THAT(text_thrown_by<ShapeError>(make), HasSubstr("[nothing]"));
}

TEST(Metric, IsTheEnginesMetricForGradients) {
  const auto model = random_model_of(two_layer_config());
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
    EXPECT_NEAR(run.metric().item<double>(), difference, 1e-12);  // float64
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
