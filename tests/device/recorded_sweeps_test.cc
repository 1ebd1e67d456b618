// Sweeps and other analyses whose runs were recorded by earlier ones give the same, to the last bit.
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "hooked/analysis/sweep.h"
#include "tests/device/checks.h"
#include "tests/device/device_under_test.h"
#include "tests/support/strict_device/counts.h"

namespace hooked::device_tests::recorded_sweeps {
namespace {

const Comparison kExact{.tolerance = 0};

// Of a sweep: the unpatched score, and three of the check that the metric scores each row alone. In addition
// each layer's patches are compared with what they replace, and each batch is scored.
constexpr std::int64_t kWaits = 4;

struct Loaded {
  explicit Loaded(const std::string& name)
      : golden(read_golden(golden_case(name))),
        model(HookedTransformer::load(golden_case(name).folder().string(), {.device = device_under_test()})) {
  }
  Subject subject() const { return {model, golden}; }
  GoldenRun golden;
  HookedTransformer model;
};

class RecordedAnalyses : public testing::TestWithParam<const char*> {};

TEST_P(RecordedAnalyses, EqualTheFirst) {
  const Loaded loaded(GetParam());
  const Subject s = loaded.subject();
  for (const Check& check : analysis_checks()) {
    if (!check.applies(s)) continue;
    SCOPED_TRACE(check.name);
    const NamedTensors first = check.values(s);
    EXPECT_TRUE(agree(check.values(s), first, kExact)) << "while its runs are recorded";
    EXPECT_TRUE(agree(check.values(s), first, kExact)) << "replayed";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RecordedAnalyses, testing::Values("gpt2", "llama", "gemma2", "bert"));

class RecordedSweeps : public testing::TestWithParam<const char*> {};

// For an encoder-decoder each run continues from what the encoder read.
TEST_P(RecordedSweeps, AreReplayed) {
  const Loaded loaded(GetParam());
  const Subject s = loaded.subject();
  Input row = s.input();
  for (at::Tensor* rows : {&row.tokens, &row.attention_mask, &row.decoder.tokens}) {
    if (rows->defined()) *rows = rows->narrow(0, 0, 1);
  }
  const auto swept = [&](std::int64_t shift) {
    Input other = row;
    other.tokens = (other.tokens + shift) % s.config().d_vocab;
    return NamedTensors{{"sweep", sweep(s.model, {.site = act::z,
                                                  .over = {Axis::layer, Axis::head, Axis::pos},
                                                  .from = PatchSource::zero(),
                                                  .into = other,
                                                  .metric = logit_difference(1, 2)})
                                      .values()}};
  };
  const NamedTensors first = swept(0), other = swept(3);
  NamedTensors again, other_again;
  const auto launches = [&](const auto& call) { return strict::counts_of(call).launches; };
  const std::int64_t replayed = launches([&] { again = swept(0); });
  EXPECT_TRUE(agree(again, first, kExact));
  EXPECT_TRUE(agree(swept(3), other, kExact)) << "another prompt of as many tokens";
  if (!on_strict_device()) GTEST_SKIP() << "launches are counted on the strict device only";
  const Loaded unseen(GetParam());
  const std::int64_t kernel_by_kernel = launches([&] {
    sweep(unseen.model, {.site = act::z,
                         .over = {Axis::layer, Axis::head, Axis::pos},
                         .from = PatchSource::zero(),
                         .into = row,
                         .metric = logit_difference(1, 2)});
  });
  EXPECT_LT(replayed, kernel_by_kernel - 10 * s.config().n_layers);
}

INSTANTIATE_TEST_SUITE_P(Models, RecordedSweeps, testing::Values("gpt2", "llama", "t5"));

TEST(RecordedSweep, SaysOnceWhyItsRunsAreNotRecorded) {
  const Loaded loaded("gpt2");
  const auto notes = [&](std::vector<Hook> hooks) {
    return sweep_report(loaded.model, {.site = act::resid_pre,
                                       .over = {Axis::layer, Axis::pos},
                                       .from = PatchSource::zero(),
                                       .into = loaded.golden.tokens,
                                       .metric = logit_difference(1, 2),
                                       .hooks = std::move(hooks)})
        .notes;
  };
  EXPECT_THAT(notes({}), testing::ElementsAre());
  EXPECT_THAT(notes({Hook(act::z, [](const at::Tensor& z) { return z * 0.5; })}),
              testing::ElementsAre(testing::HasSubstr("hooks that are functions")));
}

// Its runs and their patches wait for nothing; it waits only for each batch's scores.
TEST(RecordedSweep, WaitsForScoresAlone) {
  if (!on_strict_device()) GTEST_SKIP() << "waits are counted on the strict device only";
  for (const char* name : {"gpt2", "llama"}) {
    const Loaded loaded(name);
    const Input row(loaded.golden.tokens.narrow(0, 0, 1));
    std::int64_t batches = 0;
    const auto swept = [&] {
      batches = 0;
      sweep(loaded.model, {.site = act::resid_pre,
                           .over = {Axis::layer, Axis::pos},
                           .from = PatchSource::zero(),
                           .into = row,
                           .metric = logit_difference(1, 2),
                           .progress = [&](const SweepProgress&) {
                             ++batches;
                             return true;
                           }});
    };
    for (int time = 0; time < 3; ++time) {
      const strict::Trace trace;
      const std::int64_t waits = strict::counts_of(swept).waits;
      EXPECT_EQ(waits, kWaits + loaded.model.config().n_layers + batches)
          << name << ", " << batches << " batches\n"
          << trace.text();
    }
  }
}

}  // namespace
}  // namespace hooked::device_tests::recorded_sweeps
