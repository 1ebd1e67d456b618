// The engine on a device against itself on the CPU, golden checkpoint by golden checkpoint: everything that
// can be asked of a model gives the same. The device is the strict one, which also finds what to refuse,
// or a GPU (device_under_test.h). The checkpoints of the ordinary suite are one for each mechanism; with
// HOOKED_ALL_CHECKPOINTS in the environment (scripts/strict_device.sh) they are all of them.
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/loading/describe.h"
#include "loading/fill/device.h"
#include "tests/device/checks.h"
#include "tests/device/device_under_test.h"
#include "tests/device/suite_cases.h"

namespace hooked::device_tests {
namespace {

/// How often each check gave a result, so that none is refused everywhere.
std::map<std::string, int>& served() {
  static std::map<std::string, int> times;
  return times;
}

struct Group {
  const char* name;
  std::span<const Check> checks;
};

std::vector<Group> all_groups() {
  return {{"run", run_checks()},
          {"edit", edit_checks()},
          {"gradients", gradient_checks()},
          {"generation", generation_checks()},
          {"model", model_checks()},
          {"analysis", analysis_checks()},
          {"reading", reading_checks()},
          {"dictionaries", dictionary_checks()}};
}

class OnTheDevice : public testing::TestWithParam<GoldenCase> {
 protected:
  // Each check served some checkpoint.
  static void TearDownTestSuite() {
    const auto& all = *testing::UnitTest::GetInstance();
    if (all.test_to_run_count() < all.total_test_count()) return;
    for (const auto& [group, checks] : all_groups()) {
      for (const Check& check : checks) {
        EXPECT_TRUE(served().contains(std::string(group) + "." + std::string(check.name)))
            << group << "." << check.name;
      }
    }
  }

  // If the engine refuses, it does so on both, in the same words.
  struct Outcome {
    NamedTensors values;
    std::string refusal;
  };

  static Outcome outcome(const Check& check, const Subject& subject) {
    try {
      return {check.values(subject), {}};
    } catch (const c10::Error& error) {
      ADD_FAILURE() << error.what_without_backtrace();
      return {{}, "an error of LibTorch"};
    } catch (const Error& error) {
      return {{}, error.what()};
    }
  }

  void expect_the_same(const char* group, std::span<const Check> checks, at::ScalarType dtype,
                       double tolerance, const DeviceNames& devices = device_under_test()) {
    const std::string folder = GetParam().folder().string();
    const GoldenRun golden = read_golden(GetParam());
    const auto here = HookedTransformer::load(folder, {.dtype = dtype});
    const auto there = HookedTransformer::load(folder, {.device = devices, .dtype = dtype});
    ASSERT_EQ(there.placement().devices(), open_devices(devices));
    for (const Check& check : checks) {
      const Subject on_cpu{here, golden}, on_device{there, golden};
      if (!check.applies(on_cpu)) continue;
      SCOPED_TRACE(std::string(group) + "." + std::string(check.name));
      Outcome expected, got;
      EXPECT_NO_THROW(expected = outcome(check, on_cpu));
      EXPECT_NO_THROW(got = outcome(check, on_device));
      EXPECT_EQ(got.refusal, expected.refusal);
      if (!expected.refusal.empty() || got.refusal != expected.refusal) continue;
      ++served()[std::string(group) + "." + std::string(check.name)];
      EXPECT_TRUE(agree(got.values, expected.values, {.tolerance = tolerance}));
    }
  }

  // A delta net's state goes through as many steps as there are tokens, and float32's roundings grow with
  // them, the more where a doubled beta turns the state around. Normed values are divided by what may be
  // small compared with their inputs. (In float64 all agree as others do.)
  static double float_tolerance() {
    const ModelConfig config = read_model_config(GetParam().folder().string());
    if (config.delta_net) return config.delta_net->doubled_beta ? 2e-3 : 3e-4;
    // A product of a per-layer embedding goes through a norm, and may be small if it is edited.
    if (config.layer_input) return 5e-4;
    return on_strict_device() && !config.value_norm ? 2e-5 : 1e-4;
  }

  // In the ordinary suite the checkpoints take turns at the checks: at most of them, or, in the large groups,
  // at some.
  enum class Turns : std::uint8_t { most, some };

  // `least` is the tolerance of float32 unless the model needs a larger one.
  void expect_the_same(const char* group, std::span<const Check> checks, Turns turns, double least = 0.0) {
    const auto all_cases = suite_cases();
    const auto own = std::find_if(all_cases.begin(), all_cases.end(),
                                  [](const GoldenCase& golden) { return golden.name == GetParam().name; });
    auto turn = own - all_cases.begin();
    // Between them these two serve every check, also those that the others' turns pass by.
    const bool serves_all = GetParam().name == "gpt2" || GetParam().name == "t5";
    std::vector<Check> in_double, in_float;
    for (const Check& check : checks) {
      ++turn;
      const bool all = all_checkpoints() || (serves_all && turns == Turns::some);
      if (all || (turns == Turns::most ? turn % 3 != 0 : turn % 16 == 0)) in_double.push_back(check);
      if (all_checkpoints() || turn % (turns == Turns::most ? 8 : 16) == 7) in_float.push_back(check);
    }
    expect_the_same(group, in_double, at::kDouble, 1e-9);
    expect_the_same(group, in_float, at::kFloat, std::max(least, float_tolerance()));
  }
};

TEST(Device, IsThere) {
  if (!missing_device().empty()) GTEST_SKIP() << missing_device();
  EXPECT_NO_THROW(open_device(device_under_test()));
}

TEST_P(OnTheDevice, Runs) { expect_the_same("run", run_checks(), Turns::most); }
TEST_P(OnTheDevice, Edits) { expect_the_same("edit", edit_checks(), Turns::some); }
TEST_P(OnTheDevice, Gradients) { expect_the_same("gradients", gradient_checks(), Turns::most, 1e-4); }
TEST_P(OnTheDevice, Generates) {
  // Logits that are large against their scores' biases, whose roundings each block adds to the next one's.
  const ModelConfig config = read_model_config(GetParam().folder().string());
  const bool biased = config.relative() != nullptr && config.relative()->in_every_block;
  expect_the_same("generation", generation_checks(), Turns::most, biased ? 1e-4 : 0.0);
}
TEST_P(OnTheDevice, IsSavedAndTrained) {
  expect_the_same("model", model_checks(), Turns::some, 5e-4);  // steps of training amplify roundings
}
TEST_P(OnTheDevice, IsAnalysed) { expect_the_same("analysis", analysis_checks(), Turns::some, 1e-4); }
TEST_P(OnTheDevice, HasDictionaries) {
  expect_the_same("dictionaries", dictionary_checks(), Turns::some, 1e-3);
}
TEST_P(OnTheDevice, IsRead) {
  // A lens normalizes parts separately. If norms come after sublayers, and blocks multiply the stream,
  // some are small compared with what they came from, and float32 leaves little precision of them.
  const bool small_parts = read_model_config(GetParam().folder().string()).layer_scale;
  expect_the_same("reading", reading_checks(), Turns::some, small_parts ? 1e-3 : 0.0);
}

// A model whose layers are spread: the checkpoints take turns at all checks.
class OverDevices : public OnTheDevice {
 public:
  static void TearDownTestSuite() {}

 protected:
  void expect_the_same_over(int devices) {
    const ModelConfig config = read_model_config(GetParam().folder().string());
    if (static_cast<int>(config.blocks().size()) < devices) GTEST_SKIP() << "too few layers";
    const std::vector<std::string> names = devices_under_test();
    if (static_cast<int>(names.size()) < devices) GTEST_SKIP() << "too few devices";
    const DeviceNames some(std::vector<std::string>(names.begin(), names.begin() + devices));
    const auto all_cases = suite_cases();
    const auto own = std::find_if(all_cases.begin(), all_cases.end(),
                                  [](const GoldenCase& golden) { return golden.name == GetParam().name; });
    auto turn = own - all_cases.begin() + devices;
    for (const Group& group : all_groups()) {
      std::vector<Check> checks;
      for (const Check& check : group.checks) {
        if (all_checkpoints() || ++turn % 4 == 0) checks.push_back(check);
      }
      expect_the_same(group.name, checks, at::kDouble, 1e-9, some);
    }
  }
};

TEST_P(OverDevices, TwoAreAsOne) { expect_the_same_over(2); }
TEST_P(OverDevices, ThreeAreAsOne) { expect_the_same_over(3); }

INSTANTIATE_TEST_SUITE_P(Golden, OnTheDevice, testing::ValuesIn(suite_cases()), golden_test_name);
INSTANTIATE_TEST_SUITE_P(Golden, OverDevices, testing::ValuesIn(suite_cases()), golden_test_name);

}  // namespace
}  // namespace hooked::device_tests
