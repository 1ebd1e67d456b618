// Runs, generations, sweeps and loads by the thousand: the numbers of the first, in the memory of the first.
#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>

#include <atomic>
#include <random>
#include <stdexcept>
#include <thread>

#include "hooked/analysis/sweep.h"
#include "tests/soak/soak.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hooked::soak_runs_test {
namespace {

using soak::expect_flat;
using soak::scaled;

constexpr int kThreads = 8;
constexpr int kKinds = 24;

ModelConfig soak_config() {
  ModelConfig config = small_config();
  config.n_ctx = 64;
  config.dtype = at::kFloat;
  return config;
}

at::Tensor tokens_of(std::uint64_t seed, std::int64_t rows, std::int64_t length) {
  return random_tokens(soak_config(), {rows, length}, seed);
}

/// One kind of work: a run with what its number says, or a generation. All tensors that it gives.
std::vector<at::Tensor> work_of(HookedTransformer model, int kind) {
  const at::Tensor tokens = tokens_of(static_cast<std::uint64_t>(kind), 1 + kind % 3, 2 + kind % 9);
  const double factor = 1.0 + 0.1 * kind;
  const auto scaling = [factor](const at::Tensor& x) { return x * factor; };
  RunOptions options{.threads = 1};
  switch (kind % 6) {
    case 0:
      options.hooks = {{act::resid_pre(kind % 3), scaling}};
      options.capture = act::everything;
      break;
    case 1:
      options.edits = {scale(act::z(kind % 3).head(kind % 4), factor)};
      options.capture = act::resid_post;
      break;
    case 2:
      options.gradients =
          GradientRequest{act::resid_pre, [](const at::Tensor& logits) { return logits.square().sum(); }};
      break;
    case 3: {
      const GenerateResult made = model.generate(
          tokens.narrow(0, 0, 1),
          {.max_new_tokens = 3, .sampling = {.greedy = true}, .hooks = {{act::z(1), scaling}}, .threads = 1});
      return {made.tokens, made.log_probs};
    }
    case 4: {
      const auto handle = model.hook(act::pattern(kind % 3), scaling);
      return {model.run(tokens, options).logits()};
    }
    default:
      // A hook that throws in the middle, then a run that must not know of it.
      options.hooks = {{act::resid_mid(1), [](const at::Tensor&) { throw std::domain_error("on purpose"); }}};
      EXPECT_THROW(model.run(tokens, options), std::exception);
      return {model.run(tokens, {.threads = 1}).logits()};
  }
  const RunResult run = model.run(tokens, options);
  std::vector<at::Tensor> all = {run.logits()};
  for (const auto& entry : run.cache) all.push_back(entry.value());
  for (const auto& entry : run.gradients) all.push_back(entry.value());
  return all;
}

bool same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!at::equal(a[i], b[i])) return false;
  }
  return true;
}

TEST(Soak, ThreadsWithMixedHooksGiveTheBitsOfSerialRuns) {
  at::set_num_threads(1);
  const HookedTransformer model = random_model(soak_config());
  std::vector<std::vector<at::Tensor>> serial;
  for (int kind = 0; kind < kKinds; ++kind) serial.push_back(work_of(model, kind));
  EXPECT_FALSE(same(serial[0], serial[6])) << "kinds that are alike would hide a mix-up";
  const std::int64_t rounds = scaled(10'000);
  std::atomic<std::int64_t> different{0};
  const auto began = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t round = 0; round < rounds; ++round) {
        const int kind = static_cast<int>((t * 5 + round * 7) % kKinds);
        different += same(work_of(model, kind), serial[static_cast<std::size_t>(kind)]) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  soak::say("{} threads x {} runs with mixed hooks: {} differ from serial runs; {:.1f} s", kThreads, rounds,
            different.load(),
            std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  EXPECT_EQ(different, 0);
}

TEST(Soak, CachedRunsOfManySizesTakeNoMemory) {
  const HookedTransformer model = random_model(soak_config());
  std::mt19937 random(7);
  constexpr std::int64_t kRows = 4, kLengths = 64;
  const auto runs = [&](std::int64_t i) {
    const std::int64_t size =
        i < kRows * kLengths ? i : static_cast<std::int64_t>(random() % (kRows * kLengths));
    const std::int64_t rows = 1 + size % kRows, length = kLengths - size / kRows;
    const auto run = model.run_with_cache(tokens_of(random(), rows, length), act::everything, {.threads = 1});
    ASSERT_EQ(run.cache[act::resid_post(2)].size(0), rows);
  };
  expect_flat("cached runs of 256 sizes", scaled(100'000), kRows * kLengths, runs);
}

TEST(Soak, GenerationsTakeNoMemory) {
  const HookedTransformer model = random_model(soak_config());
  std::mt19937 random(8);
  const auto generations = [&](std::int64_t) {
    const auto length = static_cast<std::int64_t>(1 + random() % 30);
    const auto made = model.generate(
        tokens_of(random(), 1 + static_cast<std::int64_t>(random() % 3), length),
        {.max_new_tokens = 8, .sampling = {.seed = random()}, .capture = act::resid_post, .threads = 1});
    ASSERT_EQ(made.tokens.size(1), length + 8);
  };
  expect_flat("generations of 8 tokens", scaled(20'000, 100), 50, generations);
}

TEST(Soak, SweepsTakeNoMemory) {
  const HookedTransformer model = random_model(soak_config());
  std::mt19937 random(9);
  const auto sweeps = [&](std::int64_t i) {
    const auto length = static_cast<std::int64_t>(2 + random() % 12);
    const at::Tensor clean = tokens_of(random(), 1, length), corrupted = tokens_of(random(), 1, length);
    const auto grid = sweep(model, {.site = act::z,
                                    .over = {Axis::layer, Axis::head, Axis::pos},
                                    .from = model.run_with_cache(clean, act::z).cache,
                                    .into = corrupted,
                                    .metric = logit(3),
                                    .threads = 1 + static_cast<int>(i % 2)});
    ASSERT_EQ(grid.values().numel(), 3 * 4 * length);
  };
  expect_flat("sweeps of 24 to 156 cells", scaled(2'000, 40), 20, sweeps);
}

TEST(Soak, HooksThatComeAndGoTakeNoMemory) {
  HookedTransformer model = random_model(soak_config());
  const at::Tensor token = tokens_of(1, 1, 1);
  const RunOptions short_run{.output = Output::none, .threads = 1};
  const at::Tensor before = model.run(token, {.threads = 1}).logits();
  std::int64_t thrown = 0;
  const auto hooks = [&](std::int64_t i) {
    const auto handle = model.hook(act::resid_pre(0), [i](const at::Tensor&) {
      if (i % 2 == 0) throw std::domain_error("on purpose");
    });
    try {
      model.run(token, short_run);
    } catch (const std::domain_error&) {
      ++thrown;
    }
  };
  const std::int64_t times = scaled(1'000'000);
  expect_flat("hooks that come and go, every other one throwing", times, 50, hooks);
  EXPECT_EQ(thrown, (times + 1) / 2);
  EXPECT_TRUE(model.hooks().empty());
  EXPECT_TRUE(at::equal(model.run(token, {.threads = 1}).logits(), before));
}

TEST(Soak, LoadsTakeNoMemory) {
  const TempFolder folder;
  const HookedTransformer model = random_model(soak_config());
  model.save(folder / "plain");
  model.save(folder / "packed", {.packed = true});
  const at::Tensor tokens = tokens_of(2, 1, 9);
  const at::Tensor plain = HookedTransformer::load((folder / "plain").string()).run(tokens).logits();
  const at::Tensor packed = HookedTransformer::load((folder / "packed").string()).run(tokens).logits();
  // The 1,000 of each form are counted after 50: 2 % of some 200 MiB.
  const auto loads = [&](std::int64_t i) {
    const auto loaded = HookedTransformer::load((folder / (i % 2 == 0 ? "plain" : "packed")).string());
    ASSERT_TRUE(at::equal(loaded.run(tokens).logits(), i % 2 == 0 ? plain : packed));
  };
  expect_flat("loads, half of them of mapped folders, each with a run", scaled(1'000, 100), 50, loads);
}

}  // namespace
}  // namespace hooked::soak_runs_test
