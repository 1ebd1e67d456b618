#include "analysis/work/as_memory_allows.h"

#include <new>
#include <stdexcept>

#include "tests/support/test.h"

namespace hooked::as_memory_allows_test {
namespace {

using testing::Pair;

/// Work for which there is room for that many numbers at a time.
struct Worker {
  std::int64_t room;
  std::vector<std::pair<std::int64_t, std::int64_t>> done = {};
  int calls = 0;

  std::int64_t all(std::int64_t count, std::int64_t most) {
    return as_memory_allows(at::kCPU, "sweep", count, most, [&](std::int64_t begin, std::int64_t end) {
      ++calls;
      if (end - begin > room) throw std::bad_alloc();
      done.emplace_back(begin, end);
    });
  }
};

TEST(AsMemoryAllows, TakesAllThatItMay) {
  Worker worker{.room = 100};
  EXPECT_EQ(worker.all(10, 4), 4);
  EXPECT_THAT(worker.done, ElementsAre(Pair(0, 4), Pair(4, 8), Pair(8, 10)));
  EXPECT_EQ(worker.all(10, std::numeric_limits<std::int64_t>::max()),
            std::numeric_limits<std::int64_t>::max());
  EXPECT_THAT(worker.done.back(), Pair(0, 10));
}

TEST(AsMemoryAllows, HalvesWhatDoesNotFitAndStaysThere) {
  Worker worker{.room = 3};
  EXPECT_EQ(worker.all(10, 10), 3);
  EXPECT_THAT(worker.done, ElementsAre(Pair(0, 3), Pair(3, 6), Pair(6, 9), Pair(9, 10)));
  EXPECT_EQ(worker.calls, 6) << "10 and 5 did not fit";
}

TEST(AsMemoryAllows, ThrowsWhereOneAloneDoesNotFit) {
  Worker worker{.room = 0};
  EXPECT_EQ(text_thrown_by<MemoryError>([&] { worker.all(3, 3); }),
            "[sweep] the host's memory ran out; give fewer or shorter rows");
  EXPECT_EQ(worker.calls, 3) << "3, 2 and 1";
}

TEST(AsMemoryAllows, LetsOtherErrorsThrough) {
  const auto work = [](std::int64_t, std::int64_t) { throw std::runtime_error("a metric's"); };
  EXPECT_THROW(as_memory_allows(at::kCPU, "sweep", 3, 3, work), std::runtime_error);
}

}  // namespace
}  // namespace hooked::as_memory_allows_test
