#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/runs/patched_runs.h"
#include "hooked/hooks/act.h"
#include "tests/device/checks.h"
#include "tests/device/device_under_test.h"

namespace hooked::device_tests {
namespace {

// The device's answers arrive together, and not every patch has one.
TEST(WithoutEffect, PatchesThatPutInNothingKeepTheOthersInTheirPlaces) {
  const HookedTransformer model =
      HookedTransformer::load(golden_case("gpt2").folder().string(), {.device = device_under_test()});
  const ActivationCache cache =
      model.run(Input{read_golden(golden_case("gpt2")).tokens}, {.capture = act::z}).cache;
  const PatchedBlock same{act::z(0), cache[act::z(0)]}, other{act::z(0), cache[act::z(0)] + 1.0};
  EXPECT_THAT(without_effect({{}, {other}, {}, {same}, {other, same}, {}}, cache),
              testing::ElementsAre(1, 0, 1, 1, 0, 1));
}

}  // namespace
}  // namespace hooked::device_tests
