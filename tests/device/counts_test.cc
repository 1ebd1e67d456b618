// What runs on a device may cost: no waits in a run or a generation step, and a number of launches a block.
// docs/device-counts.md has the exact numbers, which the test docs_device_counts holds.
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/device/checks.h"
#include "tests/device/counts_table.h"
#include "tests/support/strict_device/device.h"

namespace hooked::device_tests {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Loaded {
  explicit Loaded(const std::string& name)
      : golden(read_golden(golden_case(name))),
        model(HookedTransformer::load(golden_case(name).folder().string(), {.device = "strict"})) {}
  Subject subject() const { return {model, golden}; }
  GoldenRun golden;
  HookedTransformer model;
};

class WithoutWaits : public testing::TestWithParam<const char*> {};

TEST_P(WithoutWaits, ARunCanBeRecorded) {
  const Loaded loaded(GetParam());
  const Subject s = loaded.subject();
  const strict::Recording recording;
  EXPECT_NO_THROW(s.model.run(s.input(), s.options()));
  EXPECT_NO_THROW(s.model.run(s.input(), s.options({.capture = defaults_without_experts()})));
  EXPECT_NO_THROW(s.model.run(
      s.input(),
      s.options({.edits = {scale(act::z(s.attending()).head(0), 2.0), zero(act::resid_post(0).pos(1)),
                           scale(act::attn_out(0).pos(std::vector<std::int64_t>{0, 2}), 0.5)},
                 .capture = act::resid_post,
                 .keep = {.positions = std::vector<std::int64_t>{0, 2}}})));
}

TEST_P(WithoutWaits, IdsThatAreThereAreCheckedOnce) {
  const Loaded loaded(GetParam());
  const Subject s = loaded.subject();
  const Input there(s.there(s.golden.tokens));
  const strict::Trace trace;
  EXPECT_EQ(strict::counts_of([&] { s.model.run(there, s.options()); }).waits, s.one_stack() ? 1 : 2)
      << trace.text();
}

INSTANTIATE_TEST_SUITE_P(Models, WithoutWaits,
                         testing::Values("gpt2", "llama", "mistral", "bloom", "gemma2", "mixtral", "phimoe",
                                         "deepseek_v3", "gpt_oss", "qwen2_moe", "lfm2", "qwen3_next",
                                         "olmo_hybrid", "gemma4_text", "gemma4_text_e2b",
                                         "gemma4_text_experts", "llama4_text_dense", "bert", "t5", "umt5"));

class Steps : public testing::TestWithParam<const char*> {};

TEST_P(Steps, WaitForWhatWasPickedAndForNothingElse) {
  const Loaded loaded(GetParam());
  const Subject s = loaded.subject();
  const at::Tensor prompt = s.golden.tokens.narrow(1, 0, 3);
  for (const SamplingOptions& sampling :
       {SamplingOptions{.greedy = true}, SamplingOptions{.temperature = 0.7, .top_k = 5}}) {
    const strict::Trace trace;
    const auto waits = strict::counts_of([&] {
                         s.model.generate(prompt, {.max_new_tokens = 3,
                                                   .sampling = sampling,
                                                   .stop = {.tokens = std::vector<std::int64_t>()},
                                                   .capture = act::resid_post});
                       }).waits;
    EXPECT_EQ(waits, 3) << trace.text();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Steps,
                         testing::Values("gpt2", "llama", "mistral", "bloom", "gemma2", "mixtral", "phimoe",
                                         "deepseek_v3", "gpt_oss", "qwen2_moe", "lfm2", "qwen3_next",
                                         "olmo_hybrid", "gemma4_text", "gemma4_text_e2b",
                                         "gemma4_text_experts", "llama4_text_dense"));

constexpr std::int64_t kPlain = 12, kCached = 18, kRotary = 4;

TEST(Launches, OfABlockOfGpt2) {
  const CountedModel gpt2 = counted("gpt2");
  EXPECT_LE(gpt2.block.launches, kPlain);
  EXPECT_LE(gpt2.cached_block.launches, kCached);
}

TEST(Launches, OfABlockWithALiBi) {
  const CountedModel bloom = counted("bloom");
  EXPECT_LE(bloom.block.launches, kPlain);
  EXPECT_LE(bloom.cached_block.launches, kCached);
}

TEST(Launches, OfABlockWithRotaryAndSharedKeys) {
  for (const char* name : {"llama", "mistral"}) {
    const CountedModel rotary = counted(name);
    EXPECT_LE(rotary.block.launches, kPlain + kRotary) << name;
    EXPECT_LE(rotary.cached_block.launches, kCached + kRotary) << name;
  }
}

// The suite finds what it is meant to find: a hook that looks at a number, and one that mixes devices.
TEST(CarelessHooks, AreFound) {
  const Loaded loaded("gpt2");
  const Subject s = loaded.subject();
  const auto run = [&](const Hook& hook) { s.model.run_with_hooks(s.input(), {hook}, s.options()); };
  const Hook asks(act::resid_mid, [](const at::Tensor& x) { return x * x.amax().item<double>(); });
  const strict::Trace trace;
  EXPECT_EQ(strict::counts_of([&] { run(asks); }).waits, s.config().n_layers);
  EXPECT_THAT(trace.text(), HasSubstr("waits: item"));
  const strict::Recording recording;
  EXPECT_THROW(run(asks), c10::Error);
  const Hook mixes(act::resid_mid, [](const at::Tensor& x) {
    return x + x.new_zeros({x.size(-1)}, at::TensorOptions(at::kCPU));
  });
  EXPECT_THROW(run(mixes), c10::Error);
}

}  // namespace
}  // namespace hooked::device_tests
