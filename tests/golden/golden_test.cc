// The engine against what transformers and TransformerLens made of the same weights: every activation, in
// float64.
#include <ATen/TensorOperators.h>
#include <ATen/ops/log_softmax.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "hooked/engine/hooked_transformer.h"
#include "tests/support/golden_files.h"

namespace hooked::golden_test {
namespace {

constexpr double kToleranceFloat64 = 1e-9;
constexpr double kLogProbToleranceFloat64 = 1e-10;  // nats

std::vector<GoldenCase> cases_where(bool (*wanted)(const GoldenCase&)) {
  std::vector<GoldenCase> cases;
  std::ranges::copy_if(golden_cases(), std::back_inserter(cases), wanted);
  return cases;
}

HookedTransformer load(const GoldenCase& golden, const WeightProcessing& processing) {
  return HookedTransformer::load(golden.folder().string(), {.dtype = at::kDouble, .processing = processing});
}

Comparison comparison(const GoldenCase& golden, const GoldenRun& run) {
  return {
      .tolerance = kToleranceFloat64, .exceptions = golden.exceptions, .attention_mask = run.attention_mask};
}

/// What goes with a golden run's tokens.
RunOptions input_of(const GoldenRun& golden) {
  return {.attention_mask = golden.attention_mask, .token_types = golden.token_types};
}

NamedTensors everything(const HookedTransformer& model, const GoldenRun& golden) {
  RunResult result = model.run_with_cache(golden.tokens, act::everything, input_of(golden));
  NamedTensors tensors = by_name(result.cache);
  tensors["logits"] = result.logits;
  return tensors;
}

class RawGolden : public testing::TestWithParam<GoldenCase> {};

TEST_P(RawGolden, EveryActivationAgrees) {
  const GoldenRun golden = read_golden(GetParam());
  const HookedTransformer model = load(GetParam(), WeightProcessing::none());
  EXPECT_TRUE(agree(everything(model, golden), golden.outputs, comparison(GetParam(), golden)));
}

TEST_P(RawGolden, DefaultProcessingKeepsTheLogProbabilities) {
  const GoldenRun golden = read_golden(GetParam());
  const auto log_probs = [&](const WeightProcessing& processing) -> NamedTensors {
    const HookedTransformer model = load(GetParam(), processing);
    const RunResult result = model.run(golden.tokens, input_of(golden));
    return {{"log_probs", at::log_softmax(result.logits, -1)}};
  };
  EXPECT_TRUE(agree(log_probs(WeightProcessing::all_that_apply()), log_probs(WeightProcessing::none()),
                    {.tolerance = kLogProbToleranceFloat64, .attention_mask = golden.attention_mask}));
}

INSTANTIATE_TEST_SUITE_P(Golden, RawGolden, testing::ValuesIn(golden_cases()), golden_test_name);

class ProcessedGolden : public testing::TestWithParam<GoldenCase> {};

TEST_P(ProcessedGolden, EveryActivationAgrees) {
  const GoldenRun golden = read_golden(GetParam(), "golden_processed");
  std::vector<ProcessingStep> steps;
  for (const std::string& name : GetParam().processing) steps.push_back(parse_processing_step(name));
  const HookedTransformer model = load(GetParam(), WeightProcessing::only(steps));
  EXPECT_TRUE(agree(everything(model, golden), golden.outputs, comparison(GetParam(), golden)));
}

INSTANTIATE_TEST_SUITE_P(Golden, ProcessedGolden,
                         testing::ValuesIn(cases_where([](const GoldenCase& g) { return g.processed; })),
                         golden_test_name);

class GoldenGradients : public testing::TestWithParam<GoldenCase> {};

TEST_P(GoldenGradients, EveryGradientAgrees) {
  const GoldenRun golden = read_golden(GetParam(), "gradients");
  const GoldenMetric metric = *GetParam().gradients;
  const auto logit_difference = [metric](const at::Tensor& logits) {
    const at::Tensor at_position = logits.select(0, metric.row).select(0, metric.position);
    return at_position.select(0, metric.answer) - at_position.select(0, metric.against);
  };
  const HookedTransformer model = load(GetParam(), WeightProcessing::none());
  const RunResult result = model.run(
      golden.tokens, {.attention_mask = golden.attention_mask,
                      .gradients = GradientRequest{.of = act::defaults, .metric = logit_difference}});
  NamedTensors gradients;
  for (const auto& [name, value] : by_name(result.gradients)) gradients["grad." + name] = value;
  EXPECT_TRUE(agree(gradients, golden.outputs, comparison(GetParam(), golden)));
}

INSTANTIATE_TEST_SUITE_P(Golden, GoldenGradients, testing::ValuesIn(cases_where([](const GoldenCase& g) {
                           return g.gradients.has_value();
                         })),
                         golden_test_name);

}  // namespace
}  // namespace hooked::golden_test
