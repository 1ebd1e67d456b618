// Sweeps and other analyses whose runs were recorded by those before them come to the same, to the last bit.
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <string>

#include "hooked/analysis/sweep.h"
#include "tests/device/checks.h"
#include "tests/device/device_under_test.h"
#include "tests/support/strict_device/counts.h"

namespace hooked::device_tests::recorded_sweeps {
namespace {

const Comparison kExact{.tolerance = 0};

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

// Of an encoder-decoder each run goes on from what the encoder read.
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

}  // namespace
}  // namespace hooked::device_tests::recorded_sweeps
