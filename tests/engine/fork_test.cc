// A child process after fork: it has one of its parent's threads, and OpenMP's runtime waits for the others
// of a team.
#include <ATen/Parallel.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <thread>

#include "core/parallel.h"
#include "tests/support/parallel_regions.h"
#include "tests/support/tiny_model.h"

namespace hooked::fork_test {
namespace {

constexpr unsigned kSeconds = 60;

/// What a child does with `work`: `yes` or `no`, what it returns; `threw`; or `hung`, after a minute.
std::string in_child(const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kSeconds);
    int status = 2;
    try {
      status = work() ? 0 : 1;
    } catch (const std::exception&) {
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFEXITED(status)) return "hung";
  return WEXITSTATUS(status) == 0 ? "yes" : WEXITSTATUS(status) == 1 ? "no" : "threw";
}

/// Leaves the calling thread with a team of LibTorch's threads.
void compute_in_parallel() {
  at::set_num_threads(2);
  const std::int64_t before = parallel_regions();
  at::ones({1 << 20}).exp();
  ASSERT_GT(parallel_regions(), before) << "nothing ran in parallel, so that no child could hang";
}

HookedTransformer large_enough() {
  ModelConfig config = small_config();
  config.d_model = 256;
  config.d_mlp = 1024;
  return HookedTransformer::create(config);
}

TEST(Fork, ATensorOfItsOwnIsComputedInTheChild) {
  compute_in_parallel();
  EXPECT_EQ(in_child([] { return at::ones({1 << 20}).exp().numel() == 1 << 20; }), "yes");
}

TEST(Fork, RunsOfTheChildEqualThoseOfTheParent) {
  compute_in_parallel();
  const HookedTransformer model = large_enough();
  const at::Tensor tokens = random_tokens(model.config(), {2, 8}, 1);
  const at::Tensor logits = model.run(tokens).logits();
  const auto close = [&](const at::Tensor& got) { return got.allclose(logits, 1e-4, 1e-5); };
  EXPECT_EQ(in_child([&] { return close(model.run(tokens).logits()); }), "yes");
  // One thread, whatever is asked for.
  EXPECT_EQ(in_child([&] { return close(model.run(tokens, {.threads = 2}).logits()); }), "yes");
  EXPECT_EQ(in_child([&] {
              at::set_num_threads(1);  // of LibTorch's own, where somebody sets them
              return close(model.run(tokens, {.threads = 4}).logits());
            }),
            "yes");
  // A thread that the child starts.
  EXPECT_EQ(in_child([&] {
              bool same = false;
              std::thread([&] { same = close(model.run(tokens).logits()); }).join();
              return same;
            }),
            "yes");
  // A child of the child.
  EXPECT_EQ(in_child([&] { return in_child([&] { return close(model.run(tokens).logits()); }) == "yes"; }),
            "yes");
}

TEST(Fork, TheChildGeneratesAndLoadsAsTheParent) {
  compute_in_parallel();
  const HookedTransformer model = large_enough();
  const at::Tensor tokens = random_tokens(model.config(), {1, 4}, 2);
  const GenerateOptions greedy{.max_new_tokens = 4, .sampling = {.greedy = true}};
  const at::Tensor made = model.generate(tokens, greedy).tokens;
  EXPECT_EQ(in_child([&] { return at::equal(model.generate(tokens, greedy).tokens, made); }), "yes");
  EXPECT_EQ(in_child([&] { return large_enough().config() == model.config(); }), "yes");
}

// LibTorch refuses gradients in a child of a process that has computed some.
TEST(Fork, GradientsOfTheChildNeverHang) {
  compute_in_parallel();
  const HookedTransformer model = large_enough();
  const at::Tensor tokens = random_tokens(model.config(), {1, 8}, 3);
  const auto gradients = [&] {
    const LogitMetric first_logit = [](const at::Tensor& logits) { return logits.flatten(1).select(1, 0); };
    const auto run = model.run(tokens, {.gradients = GradientRequest{act::resid_pre, first_logit}});
    return run.gradients.size() > 0;
  };
  EXPECT_NE(in_child(gradients), "hung");
  ASSERT_TRUE(gradients());
  EXPECT_NE(in_child(gradients), "hung");
}

TEST(Fork, InTheMiddleOfALimitedCallTheChildStaysAtOneThread) {
  compute_in_parallel();
  std::string inside;
  {
    const ThreadLimit limit(2);
    at::ones({1 << 20}).exp();
    inside = in_child([] {
      { const ThreadLimit more(2); }  // brings back what was there before
      return at::get_num_threads() == 1 && at::ones({1 << 20}).exp().numel() == 1 << 20;
    });
  }
  EXPECT_EQ(inside, "yes");
}

TEST(Fork, LargeTasksOfTheChildRunOneAfterTheOther) {
  compute_in_parallel();
  EXPECT_EQ(in_child([] {
              std::atomic<int> done = 0;
              for_each_task(8, [&](std::int64_t) { done += at::ones({1 << 20}).exp().numel() > 0 ? 1 : 0; });
              return done == 8;
            }),
            "yes");
}

}  // namespace
}  // namespace hooked::fork_test
