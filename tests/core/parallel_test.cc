#include "core/parallel.h"

#include <ATen/Parallel.h>
#include <ATen/ops/exp.h>
#include <c10/core/GradMode.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "tests/support/parallel_regions.h"
#include "tests/support/test.h"

namespace hooked::parallel_test {
namespace {

TEST(ForEachTask, DoesEveryNumberOnce) {
  for (const int threads : {1, 2, 3}) {
    const ThreadLimit limit(threads);
    std::vector<std::atomic<int>> done(1000);
    for_each_task(1000, [&](std::int64_t i) { ++done[static_cast<std::size_t>(i)]; });
    for (const auto& times : done) EXPECT_EQ(times, 1);
  }
  for_each_task(0, [](std::int64_t) { FAIL(); });
}

// The latter half would fail if regions were not counted.
TEST(ForEachTask, WhatLibTorchComputesInsideStaysOnOneThread) {
  const ThreadLimit limit(2);
  const at::Tensor large = at::ones({1 << 20});
  const std::int64_t before = parallel_regions();
  for_each_task(8, [&](std::int64_t) { large.exp(); });
  EXPECT_EQ(parallel_regions(), before);
  large.exp();
  EXPECT_GT(parallel_regions(), before) << "nothing was counted";
}

TEST(ForEachTask, UsesAsManyThreadsAsLibTorchMay) {
  const ThreadLimit limit(3);
  std::latch all_there(3);  // passed only by three threads at once
  for_each_task(3, [&](std::int64_t) { all_there.arrive_and_wait(); });
}

// A process that may have no more memory has no room for the stacks of threads.
TEST(ForEachTask, IsDoneByTheThreadsForWhichThereIsRoom) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers reserve terabytes of address space";
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    constexpr std::size_t kMost = 1000;  // the C library keeps the stacks of some threads that have ended
    std::vector<std::thread> there;
    there.reserve(kMost);
    const rlimit nothing_more{0, RLIM_INFINITY};
    ::setrlimit(RLIMIT_AS, &nothing_more);
    int status = 1;
    try {
      while (there.size() < kMost) there.emplace_back([] { ::pause(); });
    } catch (const std::system_error&) {
      std::atomic<int> done{0};
      for_each_dealt(100, 4, [&](std::int64_t, std::int64_t) { ++done; });
      status = done == 100 ? 0 : 2;
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "1: there was room for a thread";
}

TEST(ForEachTask, InsideAnotherGoesInOrder) {
  const ThreadLimit limit(2);
  for_each_task(4, [](std::int64_t) {
    std::vector<std::int64_t> order;
    for_each_task(5, [&](std::int64_t i) { order.push_back(i); });
    EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  });
}

TEST(ForEachTask, ThrowsWhatItsWorkThrows) {
  for (const int threads : {1, 3}) {
    const ThreadLimit limit(threads);
    std::atomic<int> begun{0};
    EXPECT_THROW(for_each_task(100'000,
                               [&](std::int64_t i) {
                                 ++begun;
                                 if (i == 3) throw std::runtime_error("three");
                               }),
                 std::runtime_error);
    EXPECT_LT(begun, 100'000);
  }
}

TEST(ForEachTask, KeepsTheCallersModes) {
  const ThreadLimit limit(3);
  for (const bool enabled : {false, true}) {
    const at::AutoGradMode mode(enabled);
    for_each_task(20, [&](std::int64_t) { EXPECT_EQ(at::GradMode::is_enabled(), enabled); });
  }
}

TEST(ThreadLimit, ConcernsItsThreadAndEnds) {
  const int before = at::get_num_threads();
  {
    const ThreadLimit limit(before + 2);
    EXPECT_EQ(at::get_num_threads(), before + 2);
    {
      const ThreadLimit inner(1);
      EXPECT_EQ(at::get_num_threads(), 1);
      const ThreadLimit none(std::nullopt);
      EXPECT_EQ(at::get_num_threads(), 1);
    }
    EXPECT_EQ(at::get_num_threads(), before + 2);
    std::thread([&] { EXPECT_EQ(at::get_num_threads(), before); }).join();
  }
  EXPECT_EQ(at::get_num_threads(), before);
}

// The first parallel operator of a thread sets its number of threads, which must not undo the limit.
TEST(ThreadLimit, HoldsInAThreadThatHasComputedNothingYet) {
  std::thread([] {
    const ThreadLimit limit(1);
    at::ones({1 << 20}).exp();
    EXPECT_EQ(at::get_num_threads(), 1);
  }).join();
}

TEST(ThreadLimit, RefusesLessThanOne) { EXPECT_THROW(ThreadLimit(0), ShapeError); }

}  // namespace
}  // namespace hooked::parallel_test
