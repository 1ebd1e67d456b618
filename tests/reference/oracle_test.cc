// The plain model against the outside oracles, so that what the engine is compared with is itself checked.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "tests/reference/conversion.h"
#include "tests/reference/plain_model.h"
#include "tests/support/goldens.h"

namespace hooked::oracle_test {
namespace {

constexpr double kToleranceFloat64 = 1e-9;

std::vector<GoldenCase> native_cases() {
  std::vector<GoldenCase> cases;
  std::ranges::copy_if(golden_cases(), std::back_inserter(cases), &GoldenCase::native);
  return cases;
}

class PlainModelOracle : public testing::TestWithParam<GoldenCase> {};

TEST_P(PlainModelOracle, EveryActivationAgrees) {
  const GoldenRun golden = read_golden(GetParam());
  std::optional<reference::Mask> mask;
  if (golden.attention_mask.defined()) mask = reference::to_rows(golden.attention_mask);
  std::optional<reference::Tokens> types;
  if (golden.token_types.defined()) types = reference::to_rows(golden.token_types);
  const auto run = reference::forward(native_config(GetParam()), native_weights(GetParam()),
                                      reference::to_rows(golden.tokens), {.mask = mask, .types = types});
  EXPECT_TRUE(agree(reference::to_tensors(run), golden.outputs,
                    {.tolerance = kToleranceFloat64,
                     .exceptions = GetParam().exceptions,
                     .attention_mask = golden.attention_mask}));
}

INSTANTIATE_TEST_SUITE_P(Golden, PlainModelOracle, testing::ValuesIn(native_cases()), golden_test_name);

}  // namespace
}  // namespace hooked::oracle_test
