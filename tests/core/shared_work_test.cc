#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <atomic>

#include "core/parallel.h"
#include "tests/support/other_work.h"
#include "tests/support/parallel_regions.h"
#include "tests/support/test.h"

namespace hooked::shared_work_test {
namespace {

TEST(SharedWork, EveryNumberIsDoneOnce) {
  for (const std::int64_t count : {0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> done(static_cast<std::size_t>(count));
    share_stretches(count, 1, [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t i = first; i < end; ++i) ++done[static_cast<std::size_t>(i)];
    });
    share_operations(count, 1 << 24, [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t i = first; i < end; ++i) ++done[static_cast<std::size_t>(i)];
    });
    for (const auto& times : done) EXPECT_EQ(times, 2) << count;
  }
}

TEST(SharedWork, StaysOnTheProcessorsThatOtherWorkLeaves) {
  const ThreadLimit limit(2);
  const at::Tensor large = at::ones({1 << 20});
  // Whether our work and an operator enter parallel regions.
  const auto are_shared = [&] {
    const std::int64_t before = parallel_regions();
    share_stretches(1000, 1, [](std::int64_t, std::int64_t) {});
    const std::int64_t after_work = parallel_regions();
    const SparingThreads sparing;
    large.exp();
    return std::pair(after_work > before, parallel_regions() > after_work);
  };
  EXPECT_TRUE(comes_true([&] { return are_shared() == std::pair(true, true); }));
  EXPECT_TRUE(comes_true([&] { return see_other_work() && are_shared() == std::pair(false, false); }));
  EXPECT_EQ(at::get_num_threads(), 2);
  EXPECT_TRUE(comes_true([] { return !is_spared(); })) << "it ended";
}

// LibTorch refuses to write in place into a tensor of inference mode from a thread that is not in it.
TEST(SharedWork, RunsInTheCallersMode) {
  const c10::InferenceMode inference;
  const at::Tensor out = at::empty({64, 100});
  share_among_threads(64, [&](std::int64_t i) { out[i].fill_(static_cast<double>(i)); });
  EXPECT_TRUE(at::equal(out.select(1, 7), at::arange(64, out.options())));
}

}  // namespace
}  // namespace hooked::shared_work_test
