// The plain model against the outside oracles, so that what the engine is compared with is itself checked.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "hooked/engine/hooked_transformer.h"
#include "tests/reference/conversion.h"
#include "tests/support/goldens.h"

namespace hooked::oracle_test {
namespace {

constexpr double kToleranceFloat64 = 1e-9;

constexpr std::string_view kEncoderDecoders = "t5";  // no native case has two stacks

std::vector<GoldenCase> cases() {
  std::vector<GoldenCase> cases;
  std::ranges::copy_if(golden_cases(), std::back_inserter(cases), [](const GoldenCase& golden) {
    return golden.native() || golden.family == kEncoderDecoders;
  });
  return cases;
}

/// A golden case's config and its weights under native names.
std::pair<ModelConfig, StateDict> native_model(const GoldenCase& golden) {
  if (golden.native()) return {native_config(golden), native_weights(golden)};
  const auto model = HookedTransformer::load(golden.folder().string(),
                                             {.dtype = at::kDouble, .processing = WeightProcessing::none()});
  return {model.config(), model.state_dict()};
}

class PlainModelOracle : public testing::TestWithParam<GoldenCase> {};

TEST_P(PlainModelOracle, EveryActivationAgrees) {
  const GoldenRun golden = read_golden(GetParam());
  const auto [config, weights] = native_model(GetParam());
  const auto run = reference::forward_golden(config, weights, golden);
  Comparison how{.tolerance = kToleranceFloat64,
                 .exceptions = GetParam().exceptions,
                 .attention_mask = golden.attention_mask};
  if (config.has_encoder()) how.decoder_mask = at::Tensor();  // every token of a decoder is real
  EXPECT_TRUE(agree(held_in_goldens(reference::to_tensors(run)), golden.outputs, how));
}

INSTANTIATE_TEST_SUITE_P(Golden, PlainModelOracle, testing::ValuesIn(cases()), golden_test_name);

}  // namespace
}  // namespace hooked::oracle_test
