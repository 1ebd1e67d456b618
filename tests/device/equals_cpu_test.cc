// The engine on the strict device against itself on the CPU, golden checkpoint by golden checkpoint:
// everything that can be asked of a model comes to the same, and the device finds nothing to refuse. The
// checkpoints of the ordinary suite are one for each mechanism; with HOOKED_ALL_CHECKPOINTS in the
// environment (scripts/strict_device.sh) they are all of them.
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string>

#include "hooked/core/error.h"
#include "tests/device/checks.h"
#include "tests/support/strict_device/device.h"

namespace hooked::device_tests {
namespace {

// What mechanism each of them stands for.
constexpr std::array kOfTheSuite = {
    "gpt2",                    // learned positions, LayerNorm, biases
    "gpt2_all_points",         // every point of it
    "gpt2_left_padding",       // a golden run with padding
    "bloom",                   // ALiBi, embedding norm
    "llama",                   // rotary, RMSNorm, gated, shared keys
    "llama_dynamic",           // angles by the length of a row
    "llama_longrope",          // angles by the length of a row, keys that turn again
    "gptj",                    // adjacent pairs, some dimensions, parallel with one norm
    "gpt_neox",                // parallel with two norms
    "mistral",                 // windows
    "gemma2",                  // windows in some layers, soft caps, output norms, scaled embedding
    "gemma3_text",             // two kinds of frequencies, head norms
    "qwen3",                   // norms of queries and keys
    "olmo2",                   // norms of whole projections
    "falcon",                  // one key for all heads
    "mixtral",                 // a mixture
    "phimoe",                  // a sparse mixer
    "deepseek_v3",             // latent attention, shared experts, groups
    "gpt_oss",                 // sinks, biased experts
    "qwen2_moe",               // a gated shared expert
    "bert",                    // both directions, token types, norms after, a masked-LM head
    "t5",                      // an encoder and a decoder, relative positions
    "t5_encoder",              // an encoder alone
    "xglm",                    // sinusoids
    "opt_post_norm",           // norms after the additions, projected embedding
    "apertus",                 // xIELU
    "tl_shortformer_mlp",      // positions for queries and keys only
    "tl_attn_only",            // no MLP
    "tl_solu_ln",              // SoLU, normed neurons
    "tl_bidirectional_alibi",  // ALiBi in both directions
    "tl_left_padding_window",  // windows beside padding
    "tl_score_cap_alibi",      // capped scores with biases
};

bool all_checkpoints() { return std::getenv("HOOKED_ALL_CHECKPOINTS") != nullptr; }

std::vector<GoldenCase> cases() {
  if (all_checkpoints()) return golden_cases();
  std::vector<GoldenCase> some;
  for (const char* name : kOfTheSuite) some.push_back(golden_case(name));
  return some;
}

/// How often each check came to something, so that none is refused everywhere.
std::map<std::string, int>& served() {
  static std::map<std::string, int> times;
  return times;
}

class OnTheDevice : public testing::TestWithParam<GoldenCase> {
 protected:
  // Each check served some checkpoint.
  static void TearDownTestSuite() {
    const auto& all = *testing::UnitTest::GetInstance();
    if (all.test_to_run_count() < all.total_test_count()) return;
    for (const auto& [group, checks] : {std::pair{"run", run_checks()},
                                        {"edit", edit_checks()},
                                        {"gradients", gradient_checks()},
                                        {"generation", generation_checks()},
                                        {"model", model_checks()},
                                        {"analysis", analysis_checks()}}) {
      for (const Check& check : checks) {
        EXPECT_TRUE(served().contains(std::string(group) + "." + std::string(check.name)))
            << group << "." << check.name;
      }
    }
  }

  // Where the engine refuses, it does so on both, in the same words.
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
                       double tolerance) {
    const std::string folder = GetParam().folder().string();
    const GoldenRun golden = read_golden(GetParam());
    const auto here = HookedTransformer::load(folder, {.dtype = dtype});
    const auto there = HookedTransformer::load(folder, {.device = "strict", .dtype = dtype});
    ASSERT_EQ(there.device(), strict::device(0));
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

  // In the ordinary suite the checkpoints take turns at the checks: at most of them, or, in the large groups,
  // at some.
  enum class Turns : std::uint8_t { most, some };

  void expect_the_same(const char* group, std::span<const Check> checks, Turns turns,
                       double float_tolerance = 2e-5) {
    const auto all_cases = cases();
    const auto own = std::find_if(all_cases.begin(), all_cases.end(),
                                  [](const GoldenCase& golden) { return golden.name == GetParam().name; });
    auto turn = own - all_cases.begin();
    std::vector<Check> in_double, in_float;
    for (const Check& check : checks) {
      ++turn;
      const bool all = all_checkpoints();
      if (all || (turns == Turns::most ? turn % 3 != 0 : turn % 16 == 0)) in_double.push_back(check);
      if (all || turn % (turns == Turns::most ? 8 : 16) == 7) in_float.push_back(check);
    }
    expect_the_same(group, in_double, at::kDouble, 1e-9);
    expect_the_same(group, in_float, at::kFloat, float_tolerance);
  }
};

TEST_P(OnTheDevice, Runs) { expect_the_same("run", run_checks(), Turns::most); }
TEST_P(OnTheDevice, Edits) { expect_the_same("edit", edit_checks(), Turns::some); }
TEST_P(OnTheDevice, Gradients) { expect_the_same("gradients", gradient_checks(), Turns::most, 1e-4); }
TEST_P(OnTheDevice, Generates) { expect_the_same("generation", generation_checks(), Turns::most); }
TEST_P(OnTheDevice, IsSavedAndTrained) { expect_the_same("model", model_checks(), Turns::some); }
TEST_P(OnTheDevice, IsAnalysed) { expect_the_same("analysis", analysis_checks(), Turns::some); }

INSTANTIATE_TEST_SUITE_P(Golden, OnTheDevice, testing::ValuesIn(cases()), golden_test_name);

}  // namespace
}  // namespace hooked::device_tests
