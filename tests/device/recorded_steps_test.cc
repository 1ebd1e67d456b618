// Generations whose steps are recorded and replayed give the same as kernel by kernel, to the last bit.
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/device/checks.h"
#include "tests/device/device_under_test.h"
#include "tests/device/suite_cases.h"
#include "tests/support/strict_device/counts.h"

namespace hooked::device_tests::recorded_steps {
namespace {

const Comparison kExact{.tolerance = 0};

class RecordedSteps : public testing::TestWithParam<GoldenCase> {};

TEST_P(RecordedSteps, EqualKernelByKernel) {
  const GoldenRun golden = read_golden(GetParam());
  const auto model = HookedTransformer::load(GetParam().folder().string(), {.device = device_under_test()});
  const Subject recorded{model, golden}, eager{model, golden, /*eager=*/true};
  for (const Check& check : generation_checks()) {
    if (!check.applies(eager)) continue;
    SCOPED_TRACE(check.name);
    const NamedTensors expected = check.values(eager);
    EXPECT_TRUE(agree(check.values(recorded), expected, kExact)) << "while its steps are recorded";
    EXPECT_TRUE(agree(check.values(recorded), expected, kExact)) << "replayed";
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, RecordedSteps, testing::ValuesIn(suite_cases()), golden_test_name);

class RecordedGeneration : public testing::Test {
 protected:
  GenerateResult generated(std::int64_t shift, GenerateOptions options) const {
    options.sampling = {.temperature = 0.8, .seed = 4};
    options.stop.tokens = std::vector<std::int64_t>();
    const at::Tensor tokens = golden_.tokens.narrow(1, 0, 3);
    return model_.generate((tokens + shift) % model_.config().d_vocab, options);
  }
  NamedTensors values(const GenerateResult& result) const {
    NamedTensors all = by_name(result.cache);
    all["tokens"] = result.tokens;
    all["log_probs"] = result.log_probs;
    return all;
  }
  /// The results of a generation, with another prompt for each `shift`.
  NamedTensors steered(std::int64_t shift, bool eager) const {
    const at::Tensor direction = s_.random({s_.config().d_model}, static_cast<std::uint64_t>(shift));
    return values(generated(shift, {.max_new_tokens = 6,
                                    .new_token_edits = {add(act::resid_post(0), direction)},
                                    .capture = act::defaults,
                                    .eager = eager}));
  }

  const GoldenRun golden_ = read_golden(golden_case("llama"));
  const HookedTransformer model_ =
      HookedTransformer::load(golden_case("llama").folder().string(), {.device = device_under_test()});
  const Subject s_{model_, golden_};
};

TEST_F(RecordedGeneration, StepsAreReplayedInFewLaunches) {
  if (!on_strict_device()) GTEST_SKIP() << "launches are counted on the strict device only";
  const auto launches = [&](std::int64_t tokens, bool eager) {
    return strict::counts_of([&] { generated(0, {.max_new_tokens = tokens, .eager = eager}); });
  };
  launches(6, false);
  const strict::Counts replayed = launches(6, false) - launches(5, false);
  const strict::Counts one_by_one = launches(6, true) - launches(5, true);
  EXPECT_EQ(replayed.waits, 1) << "for what was picked";
  // Token and column into the recording, the recording, results out of it, instead of all launches.
  const auto model = strict::counts_of([&] { model_.run(golden_.tokens.narrow(1, 0, 1), {.eager = true}); });
  EXPECT_LE(replayed.launches, one_by_one.launches - model.launches + 8);
}

TEST_F(RecordedGeneration, AnotherOneReplaysTheSameRecordings) {
  for (std::int64_t shift = 0; shift < 4; ++shift) {
    const NamedTensors expected = steered(shift, true);
    EXPECT_TRUE(agree(steered(shift, false), expected, kExact)) << shift;
  }
}

TEST_F(RecordedGeneration, WhatIsKeptKnowsItsColumns) {
  const auto kept = [&](bool eager) {
    return generated(1, {.max_new_tokens = 6,
                         .capture = act::resid_post | act::pattern,
                         .keep = {.positions = std::vector<std::int64_t>{1, 4, 5, 7}},
                         .eager = eager})
        .cache;
  };
  kept(false);
  for (const ActivationCache& cache : {kept(true), kept(false)}) {
    ASSERT_GT(cache.size(), 0u);
    for (const auto& entry : cache) {
      EXPECT_EQ(entry.positions, (std::vector<std::int64_t>{1, 4, 5, 7})) << entry.name.to_string();
    }
    const at::Tensor pattern = cache[act::pattern(0)];
    ASSERT_EQ(pattern.size(3), 9) << "the keys of the whole sequence";
    EXPECT_EQ(pattern.select(3, 8).abs().max().item<double>(), 0) << "a key that no kept column can see";
  }
}

TEST_F(RecordedGeneration, WhatWasHandedOutStays) {
  const NamedTensors expected = steered(1, true), first = steered(1, false);
  for (std::int64_t shift = 2; shift < 5; ++shift) steered(shift, false);
  EXPECT_TRUE(agree(first, expected, kExact));
}

TEST_F(RecordedGeneration, IsSharedByThreads) {
  std::vector<NamedTensors> expected(4), got(4);
  for (std::size_t i = 0; i < 4; ++i) expected[i] = steered(static_cast<std::int64_t>(i), true);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] { got[i] = steered(static_cast<std::int64_t>(i), false); });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(agree(got[i], expected[i], kExact)) << i;
  }
}

TEST_F(RecordedGeneration, OutlivesAnException) {
  const NamedTensors expected = steered(2, true);
  for (int time = 0; time < 3; ++time) {
    int steps = 0;
    const auto stops = [&](const at::Tensor& /*tokens*/) {
      if (++steps == 3) throw std::runtime_error("the caller's");
      return true;
    };
    EXPECT_THROW(generated(1, {.max_new_tokens = 6, .on_tokens = stops}), std::runtime_error);
    EXPECT_TRUE(agree(steered(2, false), expected, kExact));
  }
}

TEST_F(RecordedGeneration, KeysThatOverflowedDoNotReachTheNextOne) {
  const NamedTensors expected = steered(2, true);
  const auto overflow = [&] {
    generated(1, {.max_new_tokens = 6, .new_token_edits = {set(act::v(0), 1e38), set(act::k(0), 1e38)}});
  };
  try {
    overflow();
  } catch (const std::exception&) {  // its logits are not numbers
  }
  EXPECT_TRUE(agree(steered(2, false), expected, kExact));
}

TEST_F(RecordedGeneration, SeesWeightsThatWereChanged) {
  for (int time = 0; time < 2; ++time) steered(1, false);
  model_.weights()["blocks.0.mlp.W_out"].mul_(2.0);
  EXPECT_TRUE(agree(steered(1, false), steered(1, true), kExact));
}

// Edits of patterns and scores apply to keys, and each step has more of them.
TEST_F(RecordedGeneration, ReplaysEditsOfKeys) {
  if (!on_strict_device()) GTEST_SKIP() << "launches are counted on the strict device only";
  const auto launches = [&](std::int64_t tokens, bool eager) {
    return strict::counts_of([&] {
      generated(0, {.max_new_tokens = tokens,
                    .edits = {zero(act::pattern(0).head(1).key(-1)),
                              scale(act::pattern(1).key(AxisIndex::Range{1, -1}), 0.5),
                              add(act::attn_scores(0).key(std::vector<std::int64_t>{0, 5}), 0.25)},
                    .eager = eager});
    });
  };
  launches(6, false);
  const strict::Counts replayed = launches(6, false) - launches(5, false);
  EXPECT_EQ(replayed.waits, 1) << "for what was picked";
  EXPECT_LT(replayed.launches, 25);
  EXPECT_GT((launches(6, true) - launches(5, true)).launches, 60);
}

// Keys with room that is not filled yet stay without weight, whatever an edit puts there.
TEST_F(RecordedGeneration, EditsReachTheKeysThatAreThereAndNoOthers) {
  const auto patterns = [&](bool there) {
    const auto model = HookedTransformer::load(
        golden_case("llama").folder().string(),
        {.device = there ? DeviceNames(device_under_test()) : DeviceNames("cpu"), .dtype = at::kDouble});
    return by_name(model
                       .generate(golden_.tokens.narrow(1, 0, 3),
                                 {.max_new_tokens = 5,
                                  .sampling = {.greedy = true},
                                  .stop = {.tokens = std::vector<std::int64_t>()},
                                  .edits = {set(act::attn_scores(0), 0.5), set(act::pattern(1), 0.125),
                                            scale(act::pattern(0).key(-1), 3.0)},
                                  .capture = act::pattern | act::attn_scores | act::z})
                       .cache);
  };
  const NamedTensors expected = patterns(false);
  for (int time = 0; time < 3; ++time) EXPECT_TRUE(agree(patterns(true), expected, {.tolerance = 1e-9}));
}

class LatentGeneration : public testing::TestWithParam<const char*> {};

// Layers whose keys may be edited hold heads, the others latents; so does a prefix, in forms of its own.
TEST_P(LatentGeneration, HoldsKeysInTheFormThatEveryStepReads) {
  const GoldenCase& golden_of = golden_case(GetParam());
  const GoldenRun golden = read_golden(golden_of);
  const auto load = [&](const DeviceNames& device) {
    return HookedTransformer::load(golden_of.folder().string(), {.device = device, .dtype = at::kDouble});
  };
  const HookedTransformer cpu = load("cpu"), there = load(device_under_test());
  const at::Tensor begin = golden.tokens.narrow(1, 0, 2), rest = golden.tokens.narrow(1, 2, 1);
  const Edit key = scale(act::k(1).head(0), 0.5), value = scale(act::v(0), 0.5);
  struct Case {
    std::vector<Edit> before, prompt, steps;
  };
  for (const Case& edits : {Case{}, Case{{key}, {}, {}}, Case{{}, {key}, {}}, Case{{}, {}, {value, key}},
                            Case{{value}, {key}, {}}, Case{{key}, {}, {key}}}) {
    const auto generated = [&](const HookedTransformer& model) {
      const auto before = model.run(begin, {.edits = edits.before, .keep_prefix = true});
      const GenerateResult result =
          model.generate({rest, {.prefix = before.prefix}}, {.max_new_tokens = 4,
                                                             .sampling = {.greedy = true},
                                                             .stop = {.tokens = std::vector<std::int64_t>()},
                                                             .prompt_edits = edits.prompt,
                                                             .new_token_edits = edits.steps,
                                                             .capture = defaults_without_experts()});
      EXPECT_TRUE(result.notes.empty()) << result.notes.front();
      NamedTensors all = by_name(result.cache);
      all["tokens"] = result.tokens;
      return all;
    };
    const NamedTensors expected = generated(cpu);
    for (int time = 0; time < 3; ++time) EXPECT_TRUE(agree(generated(there), expected, {.tolerance = 1e-9}));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LatentGeneration, testing::Values("deepseek_v2", "deepseek_v3"));

TEST_F(RecordedGeneration, SaysWhatIsNotRecorded) {
  const auto note = [&](GenerateOptions options) {
    options.max_new_tokens = 3;
    const GenerateResult result = generated(0, std::move(options));
    return result.notes.empty() ? std::string() : result.notes.front();
  };
  const Hook halves(act::z, [](const at::Tensor& z) { return z * 0.5; });
  EXPECT_EQ(note({}), "");
  EXPECT_EQ(note({.hooks = {halves}, .eager = true}), "");
  EXPECT_THAT(note({.hooks = {halves}}), testing::HasSubstr("hooks"));
  EXPECT_EQ(note({.edits = {scale(act::pattern(0), 0.5), zero(act::attn_scores(1).key(-1))}}), "");
  const Address two_keys = act::pattern(0).pos(3).key(std::vector<std::int64_t>{0, 2});
  EXPECT_THAT(note({.new_token_edits = {add(two_keys, s_.random({2}, 1))}}),
              testing::HasSubstr("hook_pattern with a number for each key"));
}

}  // namespace
}  // namespace hooked::device_tests::recorded_steps
