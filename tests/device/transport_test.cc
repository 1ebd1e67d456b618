// What runs keep on the host goes there in one piece, and nobody waits before it is read. The strict device
// makes such copies as late as it can, from memory that nobody holds for it.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "hooked/core/error.h"
#include "hooks/host_transport.h"
#include "loading/fill/loaded_model.h"
#include "tests/device/checks.h"
#include "tests/device/device_under_test.h"
#include "tests/support/strict_device/counts.h"
#include "tests/support/strict_device/device.h"
#include "tests/support/strict_device/limits.h"

namespace hooked::device_tests {
namespace {

using strict::counts_of;

class OnTheHost : public testing::Test {
 protected:
  explicit OnTheHost(DeviceNames devices = "strict")
      : model_(HookedTransformer::load(golden_case("gpt2").folder().string(), {.device = devices})) {}

  RunResult kept_there() const { return model_.run(input_, {.capture = act::defaults, .eager = true}); }
  RunResult kept_here() const {
    return model_.run(input_, {.capture = act::defaults, .keep = {.device = "cpu"}, .eager = true});
  }
  // Kernel by kernel there, because a recipe may compute a value differently from the run.
  NamedTensors expected() const {
    return by_name(model_
                       .run(input_, {.hooks = {Hook(act::everything, [](const at::Tensor&) {})},
                                     .capture = act::defaults,
                                     .eager = true})
                       .cache);
  }

  const GoldenRun golden_ = read_golden(golden_case("gpt2"));
  const HookedTransformer model_;
  const Input input_{golden_.tokens};
};

TEST_F(OnTheHost, ARunHandsOutOneCopyAndWaitsNowhere) {
  RunResult run;
  strict::Trace trace(strict::Trace::Of::waits_and_launches);
  EXPECT_EQ(counts_of([&] { run = kept_here(); }).waits, 0) << trace.text();
  const std::string text = trace.text();
  EXPECT_THAT(text, testing::HasSubstr("1 launches: copy_ < hooked::HostTransport::send")) << text;
  EXPECT_THAT(text, testing::HasSubstr("1 launches: aten::cat.out < hooked::HostTransport::send")) << text;
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("hooked::Watch::kept")))
      << "nothing is copied separately\n"
      << text;
}

TEST_F(OnTheHost, TheFirstReadWaitsForAll) {
  const RunResult run = kept_here();
  EXPECT_EQ(counts_of([&] { run.cache[act::resid_post(0)].sum().item<float>(); }).waits, 1);
  const auto read_all = [&] {
    for (const ActivationName& name : run.cache.names()) run.cache[Address(name)].sum();
  };
  EXPECT_EQ(counts_of(read_all), strict::Counts{});
}

TEST_F(OnTheHost, ItIsWhatWasThere) {
  const RunResult run = kept_here();
  for (const auto& entry : run.cache) EXPECT_TRUE(entry.held.device().is_cpu()) << entry.name.to_string();
  EXPECT_TRUE(agree(by_name(run.cache), expected(), {.tolerance = 1e-6}));
}

TEST_F(OnTheHost, RunsThatFollowDoNotDisturbIt) {
  const NamedTensors wanted = expected();
  std::vector<RunResult> runs;
  for (int i = 0; i < 4; ++i) {
    runs.push_back(kept_here());
    model_.run({golden_.tokens.flip(1)}, {.capture = act::defaults, .keep = {.device = "cpu"}});
  }
  for (const RunResult& run : runs) EXPECT_TRUE(agree(by_name(run.cache), wanted, {.tolerance = 1e-6}));
}

TEST_F(OnTheHost, ItGoesInBlocksWhereThereIsMuch) {
  const NamedTensors wanted = expected();
  model_.loaded()->transport->block_bytes = 4096;
  RunResult run;
  const strict::Trace trace(strict::Trace::Of::waits_and_launches);
  EXPECT_EQ(counts_of([&] { run = kept_here(); }).waits, 0) << trace.text();
  EXPECT_THAT(trace.text(), testing::HasSubstr("HostTransport::send < hooked::send_to_host < "
                                               "hooked::Watch::keep"));
  EXPECT_TRUE(agree(by_name(run.cache), wanted, {.tolerance = 1e-6}));
}

TEST_F(OnTheHost, NothingStaysThere) {
  kept_here();
  const std::int64_t before = strict::bytes_in_use();
  {
    const RunResult read = kept_here();
    read.cache[act::resid_post(0)].sum();
    EXPECT_EQ(strict::bytes_in_use() - before,
              read.logits().nbytes() == 0 ? 0 : 4096 * ((read.logits().nbytes() + 4095) / 4096));
  }
  kept_here();  // is never read
  EXPECT_EQ(strict::bytes_in_use(), before);
}

TEST_F(OnTheHost, AWriteBeforeItIsSentIsFound) {
  at::Tensor seen;
  const Hook keeps(act::resid_pre(0), [&](const at::Tensor& x) { seen = x; });
  const Hook writes(act::resid_post(1), [&](const at::Tensor&) { seen.zero_(); });
  EXPECT_THROW(
      model_.run(input_, {.hooks = {keeps, writes}, .capture = act::resid_pre(0), .keep = {.device = "cpu"}}),
      HookError);
}

TEST_F(OnTheHost, AWriteIntoOneIsNoneIntoTheOthers) {
  const RunResult run = kept_here();
  run.cache[act::resid_post(0)].add_(1.0);
  EXPECT_THROW(run.cache[act::resid_post(0)], HookError);
  EXPECT_NO_THROW(run.cache[act::z(0)]);
}

TEST_F(OnTheHost, GradientsGoTheSameWay) {
  const LogitMetric metric([](const at::Tensor& logits) { return logits.square().mean(); });
  const RunOptions options{.keep = {.device = "cpu"}, .gradients = GradientRequest{act::resid_pre, metric}};
  RunResult run;
  EXPECT_EQ(counts_of([&] { run = model_.run(input_, options); }).waits, 0);
  RunOptions there = options;
  there.keep = {};
  EXPECT_TRUE(agree(by_name(run.gradients), by_name(model_.run(input_, there).gradients), {.tolerance = 0}));
}

TEST_F(OnTheHost, ThreadsShareIt) {
  const NamedTensors wanted = expected();
  std::vector<RunResult> runs(4);
  std::vector<std::thread> threads;
  for (RunResult& run : runs) threads.emplace_back([&] { run = kept_here(); });
  for (std::thread& thread : threads) thread.join();
  for (const RunResult& run : runs) EXPECT_TRUE(agree(by_name(run.cache), wanted, {.tolerance = 1e-6}));
}

GenerateResult generated(const HookedTransformer& model, const at::Tensor& prompt, std::int64_t tokens,
                         const char* keep, bool eager) {
  return model.generate(prompt, {.max_new_tokens = tokens,
                                 .sampling = {.greedy = true},
                                 .stop = {.tokens = std::vector<std::int64_t>()},
                                 .capture = act::defaults,
                                 .keep = {.device = keep},
                                 .eager = eager});
}

// For picked tokens: many steps go to the host together.
TEST_F(OnTheHost, AStepOfAGenerationWaitsOnce) {
  const at::Tensor prompt = golden_.tokens.narrow(1, 0, 3);
  for (const bool eager : {true, false}) {
    const auto steps = [&](std::int64_t n) {
      return counts_of([&] { generated(model_, prompt, n, "cpu", eager); });
    };
    EXPECT_EQ((steps(4) - steps(3)).waits, 1);
  }
}

TEST_F(OnTheHost, StepsThatGoInSeveralPiecesAreWhatWasThere) {
  const at::Tensor prompt = golden_.tokens.narrow(1, 0, 3);
  const std::int64_t most = model_.config().n_ctx - 3;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{1} << 26}) {
    model_.loaded()->transport->block_bytes = bytes;
    const ActivationCache here = generated(model_, prompt, most, "cpu", true).cache;
    for (const auto& entry : here) EXPECT_TRUE(entry.held.device().is_cpu()) << entry.name.to_string();
    EXPECT_TRUE(
        agree(by_name(here), by_name(generated(model_, prompt, most, "", true).cache), {.tolerance = 0}))
        << bytes;
  }
}

TEST_F(OnTheHost, GenerationsWithHooksGoTheSameWay) {
  const at::Tensor prompt = golden_.tokens.narrow(1, 0, 3);
  const auto hooked = [&](const char* keep) {
    return by_name(
        model_
            .generate(prompt, {.max_new_tokens = 5,
                               .sampling = {.greedy = true},
                               .hooks = {Hook(act::z, [](const at::Tensor& z) { return z * 0.5; })},
                               .capture = act::resid_post,
                               .keep = {.device = keep}})
            .cache);
  };
  EXPECT_TRUE(agree(hooked("cpu"), hooked(""), {.tolerance = 0}));
}

class OverTwo : public OnTheHost {
 protected:
  OverTwo() : OnTheHost({"strict:0", "strict:1"}) {}
};

TEST_F(OverTwo, EachDeviceSendsOnce) {
  RunResult run;
  const strict::Trace trace(strict::Trace::Of::waits_and_launches);
  EXPECT_EQ(counts_of([&] { run = kept_here(); }).waits, 0) << trace.text();
  EXPECT_THAT(trace.text(), testing::HasSubstr("2 launches: copy_ < hooked::HostTransport::send"));
  EXPECT_TRUE(agree(by_name(run.cache), expected(), {.tolerance = 1e-6}));
}

}  // namespace
}  // namespace hooked::device_tests
