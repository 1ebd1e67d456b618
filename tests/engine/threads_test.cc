#include <ATen/Parallel.h>
#include <pthread.h>

#include <atomic>
#include <thread>

#include "tests/support/tiny_model.h"

namespace hooked::threads_test {
namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 10;

/// What thread `t` does: its own tokens, its own hook, its own edit, its own cache.
RunResult work(const HookedTransformer& model, int t) {
  const at::Tensor tokens = random_tokens(model.config(), {2, 6}, 100 + static_cast<std::uint64_t>(t));
  const double factor = 0.5 + t;
  return model.run_with_hooks(
      tokens, {{act::resid_pre(t % 3), [factor](const at::Tensor& x) { return x * factor; }}},
      {.edits = {scale(act::z(t % 3).head(t % 4), 0.1 * t)},
       .capture = t % 2 == 0 ? Selection(act::everything) : Selection(act::resid_post)});
}

template <typename F>
void in_threads(F f) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([&f, t] { f(t); });
  for (std::thread& thread : threads) thread.join();
}

void expect_equal(const RunResult& got, const RunResult& expected) {
  EXPECT_TRUE(at::equal(got.logits(), expected.logits()));
  ASSERT_EQ(got.cache.names(), expected.cache.names());
  for (const auto& entry : got.cache) {
    EXPECT_TRUE(at::equal(entry.value(), expected.cache[Address(entry.name)])) << entry.name.to_string();
  }
}

TEST(Threads, RunsWithDifferentHooksEqualSerialOnes) {
  at::set_num_threads(1);
  const HookedTransformer model = random_model();
  std::vector<RunResult> serial;
  for (int t = 0; t < kThreads; ++t) serial.push_back(work(model, t));
  std::vector<std::vector<RunResult>> results(kThreads);
  in_threads([&](int t) {
    for (int round = 0; round < kRounds; ++round)
      results[static_cast<std::size_t>(t)].push_back(work(model, t));
  });
  for (std::size_t t = 0; t < kThreads; ++t) {
    for (const RunResult& result : results[t]) expect_equal(result, serial[t]);
  }
}

TEST(Threads, LargeRunsShareTheWorkspace) {
  at::set_num_threads(1);
  ModelConfig config = small_config();
  config.d_model = 128;
  config.n_ctx = 128;
  config.dtype = at::kFloat;
  const HookedTransformer model = random_model(config);
  const auto tokens = [&](int t) {
    return random_tokens(config, {2, 128}, 200 + static_cast<std::uint64_t>(t));
  };
  std::vector<RunResult> serial;
  for (int t = 0; t < kThreads; ++t) serial.push_back(model.run_with_cache(tokens(t)));
  std::vector<std::vector<RunResult>> results(kThreads);
  in_threads([&](int t) {
    for (int round = 0; round < 3; ++round)
      results[static_cast<std::size_t>(t)].push_back(model.run_with_cache(tokens(t)));
  });
  for (std::size_t t = 0; t < kThreads; ++t) {
    for (const RunResult& result : results[t]) expect_equal(result, serial[t]);
  }
}

TEST(Threads, ScopedHooksOfCopiesDoNotMeet) {
  at::set_num_threads(1);
  const HookedTransformer model = random_model();
  const at::Tensor tokens = random_tokens(model.config(), {2, 6});
  const auto with_hook = [&](int t) {
    HookedTransformer own = model;
    const auto handle = own.hook(act::resid_pre(1), [t](const at::Tensor& x) { return x * (1.0 + t); });
    return own(tokens);
  };
  std::vector<at::Tensor> serial;
  for (int t = 0; t < kThreads; ++t) serial.push_back(with_hook(t));
  std::vector<std::vector<at::Tensor>> results(kThreads);
  in_threads([&](int t) {
    for (int round = 0; round < kRounds; ++round)
      results[static_cast<std::size_t>(t)].push_back(with_hook(t));
  });
  for (std::size_t t = 0; t < kThreads; ++t) {
    for (const at::Tensor& result : results[t]) EXPECT_TRUE(at::equal(result, serial[t]));
  }
}

TEST(Threads, GradientRunsDoNotMeet) {
  at::set_num_threads(1);
  const HookedTransformer model = random_model();
  const auto gradients = [&](int t) {
    const at::Tensor tokens = random_tokens(model.config(), {1, 6}, 300 + static_cast<std::uint64_t>(t));
    return model
        .run(tokens,
             {.gradients = GradientRequest{act::resid_pre,
                                           [](const at::Tensor& logits) { return logits.square().sum(); }}})
        .gradients.stack(act::resid_pre);
  };
  std::vector<at::Tensor> serial;
  for (int t = 0; t < kThreads; ++t) serial.push_back(gradients(t));
  std::vector<at::Tensor> results(kThreads);
  in_threads([&](int t) { results[static_cast<std::size_t>(t)] = gradients(t); });
  for (std::size_t t = 0; t < kThreads; ++t) EXPECT_TRUE(at::equal(results[t], serial[t]));
}

// Ends the thread that reaches it, as pthread_exit and a cancelled thread do: the stack is unwound, and
// nothing catches that.
void die(const at::Tensor&) { ::pthread_exit(nullptr); }

TEST(Threads, OneThatDiesInAHookLeavesTheOthersAlone) {
  at::set_num_threads(1);
  const HookedTransformer model = random_model();
  const at::Tensor tokens = random_tokens(model.config(), {2, 6});
  const at::Tensor plain = model(tokens);
  std::vector<RunResult> serial;
  for (int t = 0; t < kThreads; ++t) serial.push_back(work(model, t));
  std::atomic<bool> going{true};
  std::atomic<int> died{0}, threw{0};
  // One thread after another dies in the middle of a run, or in a generation; one throws again and again.
  std::thread dying([&] {
    while (going) {
      std::thread([&] {
        ++died;
        if (died % 2 == 0) model.generate(tokens, {.max_new_tokens = 3, .hooks = {{act::z(1), die}}});
        model.run(tokens, {.hooks = {{act::z(1), die}}});
        ADD_FAILURE() << "the thread came back";
      }).join();
    }
  });
  std::thread throwing([&] {
    while (going) {
      try {
        model.run(tokens, {.hooks = {{act::resid_mid(2), [](const at::Tensor&) { throw 5; }}}});
        ADD_FAILURE() << "nothing was thrown";
      } catch (int) {
        ++threw;
      }
    }
  });
  std::vector<std::vector<RunResult>> results(kThreads);
  in_threads([&](int t) {
    for (int round = 0; round < kRounds || died < 5 || threw < 5; ++round)
      results[static_cast<std::size_t>(t)].push_back(work(model, t));
  });
  going = false;
  dying.join();
  throwing.join();
  for (std::size_t t = 0; t < kThreads; ++t) {
    for (const RunResult& result : results[t]) expect_equal(result, serial[t]);
  }
  EXPECT_TRUE(at::equal(model(tokens), plain));
}

}  // namespace
}  // namespace hooked::threads_test
