// A sweep over several copies of a model gives the numbers of one, whatever happens on the way.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "hooked/analysis/direct_path.h"
#include "hooked/analysis/patching_presets.h"
#include "hooked/analysis/sweep.h"
#include "hooked/core/error.h"
#include "hooked/engine/replicate.h"
#include "tests/device/checks.h"
#include "tests/support/strict_device/counts.h"
#include "tests/support/strict_device/limits.h"
#include "tests/support/temp_folder.h"

namespace hooked::device_tests {
namespace {

using testing::HasSubstr;

class Replicas : public testing::Test {
 protected:
  SweepOptions options(std::vector<HookedTransformer> replicas = {}) const {
    return {.site = act::resid_pre,
            .over = {Axis::layer, Axis::pos},
            .from = from_,
            .into = golden_.tokens,
            .metric = {logit_difference(1, 2), log_probability(3)},
            .tokens_per_run = 30,
            .replicas = std::move(replicas)};
  }

  const GoldenRun golden_ = read_golden(golden_case("gpt2"));
  const HookedTransformer model_ =
      HookedTransformer::load(golden_case("gpt2").folder().string(), {.device = "strict:0"});
  const ActivationCache from_ = model_.run_with_cache({golden_.tokens.flip(1)}, act::everything).cache;
  const std::vector<HookedTransformer> three_ = replicate(model_, "strict:all");
};

TEST_F(Replicas, AreCopiesOfTheModel) {
  ASSERT_EQ(three_.size(), 3);
  EXPECT_EQ(three_[0].loaded(), model_.loaded());
  for (std::size_t i = 0; i < three_.size(); ++i) {
    EXPECT_EQ(three_[i].device().str(), "strict:" + std::to_string(i));
    EXPECT_TRUE(
        three_[i].run({golden_.tokens}).logits().cpu().equal(model_.run({golden_.tokens}).logits().cpu()));
    EXPECT_EQ(three_[i].notes(), model_.notes());
    EXPECT_EQ(three_[i].provenance().config_sha1, model_.provenance().config_sha1);
  }
}

// Weights that stay in float32 in narrower models, and a model's notes on numbers that are not finite.
TEST(HalfPrecisionThere, KeepsWhatItsFamilyKeeps) {
  const auto folder = golden_case("deepseek_v3").folder().string();
  const LoadOptions here{.dtype = at::kBFloat16, .processing = WeightProcessing::none()};
  LoadOptions there = here;
  there.device = "strict:0";
  constexpr const char* kBias = "blocks.1.mlp.choice_bias";
  const at::Tensor expected = HookedTransformer::load(folder, here).weights()[kBias];
  const auto model = HookedTransformer::load(folder, there);
  ASSERT_EQ(expected.scalar_type(), at::kFloat);
  EXPECT_TRUE(model.weights()[kBias].cpu().equal(expected));
  for (const HookedTransformer& copy : replicate(model, "strict:all"))
    EXPECT_TRUE(copy.weights()[kBias].cpu().equal(expected));
}

TEST(HalfPrecisionThere, IsAskedWhetherItIsFinite) {
  const auto model = HookedTransformer::load(golden_case("gpt2").folder().string(), {.device = "strict:0"});
  const Edit huge = scale(act::resid_post(0).pos(1), 1e30);  // by a float; twice is too much
  const auto run = model.run(read_golden(golden_case("gpt2")).tokens, {.edits = {huge, huge}});
  EXPECT_TRUE(run.notes.empty() || !run.notes.front().starts_with(kNotFinite)) << "a run does not wait";
  EXPECT_TRUE(run.not_finite());
}

TEST_F(Replicas, OfASpreadModelAreWhole) {
  const auto spread =
      HookedTransformer::load(golden_case("gpt2").folder().string(), {.device = {"strict:0", "strict:1"}});
  const auto replicas = replicate(spread, "strict:2,strict:0");
  EXPECT_FALSE(replicas[0].placement().spread());
  EXPECT_EQ(replicas[1].device().str(), "strict:0");
  EXPECT_THAT(replicas[0].notes(), testing::Not(testing::Contains(HasSubstr("spread"))));
  EXPECT_TRUE(
      replicas[0].run({golden_.tokens}).logits().cpu().equal(model_.run({golden_.tokens}).logits().cpu()));
}

TEST_F(Replicas, GiveTheNumbersOfOne) {
  const Grid expected = sweep(model_, options());
  EXPECT_TRUE(sweep(model_, options(three_)).values().equal(expected.values()));
  const Grid heads = sweep(model_, patching_preset("attn_head_all_pos_every"),
                           {.from = from_, .into = golden_.tokens, .metric = logit_difference(1, 2)});
  const Grid shared =
      sweep(model_, patching_preset("attn_head_all_pos_every"),
            {.from = from_, .into = golden_.tokens, .metric = logit_difference(1, 2), .replicas = three_});
  EXPECT_TRUE(shared.values().equal(heads.values()));
}

TEST_F(Replicas, AreAllAtWork) {
  // Every thread but the caller's serves another device.
  std::mutex mutex;
  std::set<std::thread::id> threads;
  SweepOptions shared = options(three_);
  shared.progress = [&](const SweepProgress&) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    return true;
  };
  // Each thread gets at least one run, sooner or later.
  for (int time = 0; time < 20 && threads.size() < 3; ++time) sweep(model_, shared);
  EXPECT_GE(threads.size(), 3);
}

TEST_F(Replicas, EditsHoldOnEachOfThem) {
  SweepOptions one = options(), shared = options(three_);
  const std::int64_t width = model_.config().d_model;
  const Edit steer = add(act::resid_post(0), at::full({width}, 0.25, at::kFloat).to(model_.device()));
  one.edits = shared.edits = {steer, zero(act::z(1).head(0))};
  EXPECT_TRUE(sweep(model_, shared).values().equal(sweep(model_, one).values()));
}

TEST_F(Replicas, HooksKeepToTheModel) {
  std::set<std::string> devices;
  std::set<std::thread::id> threads;
  SweepOptions shared = options(three_);
  shared.hooks = {Hook(act::resid_post(0), [&](const at::Tensor& x) {
    devices.insert(x.device().str());
    threads.insert(std::this_thread::get_id());
  })};
  sweep(model_, shared);
  EXPECT_EQ(devices, std::set<std::string>{"strict:0"});
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
}

TEST_F(Replicas, AreStoppedAndResumed) {
  const TempFolder folder;
  SweepOptions shared = options(three_);
  shared.partial = folder / "partial.safetensors";
  int runs = 0;
  shared.progress = [&](const SweepProgress&) { return ++runs < 4; };
  EXPECT_FALSE(sweep_report(model_, shared).complete);
  shared.progress = nullptr;
  const SweepReport rest = sweep_report(model_, shared);
  EXPECT_TRUE(rest.complete);
  EXPECT_TRUE(rest.grid.values().equal(sweep(model_, options()).values()));
}

TEST_F(Replicas, WhatAMetricThrowsPassesThrough) {
  SweepOptions shared = options(three_);
  std::atomic<int> scored = 0;
  shared.metric = Metric([&](const at::Tensor& logits) -> at::Tensor {
    if (++scored > 5) throw std::runtime_error("no more");
    return logits.select(1, -1).select(1, 0);
  });
  EXPECT_THROW(sweep(model_, shared), std::runtime_error);
  EXPECT_TRUE(sweep(model_, options(three_)).values().equal(sweep(model_, options()).values()));
}

TEST_F(Replicas, MemoryThatRunsOutIsAnErrorOrFewerRows) {
  const Grid expected = sweep(model_, options());
  for (std::int64_t k = 1; k < 4000; k *= 3) {
    const strict::FailingAllocation failing(k, strict::RunsOut::once);
    try {
      const Grid got = sweep(model_, options(three_));
      EXPECT_TRUE(got.values().allclose(expected.values(), 1e-4, 1e-5, /*equal_nan=*/true)) << k;
    } catch (const MemoryError&) {
    }
  }
  EXPECT_TRUE(sweep(model_, options(three_)).values().equal(expected.values()));
}

TEST_F(Replicas, OfAnotherModelAreRefused) {
  const auto other = HookedTransformer::load(golden_case("llama").folder().string(), {.device = "strict:1"});
  SweepOptions wrong = options({other});
  try {
    sweep(model_, wrong);
    ADD_FAILURE();
  } catch (const HookError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the replica on strict:1 is another model"));
  }
}

}  // namespace
}  // namespace hooked::device_tests
