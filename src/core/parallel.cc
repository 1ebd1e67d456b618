#include "core/parallel.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

#include "core/ahead.h"
#include "hooked/core/error.h"

// Note [Large tasks]
// LibTorch's operators share their work among OpenMP's threads, and a thread that is done waits for the
// others by spinning. If another process is busy, a thread may lose its processor, and the others spin for a
// whole scheduler time slice: milliseconds, at each of the thousands of small operators that loading a model
// takes. So a long stretch of work is cut into large tasks, which threads take as they become free, and
// operators inside a task run on its thread. Threads that are done block instead of spinning.

namespace hooked {
namespace {

// The runtimes' own settings for one thread. at::set_num_threads would also set the number for new threads
// that have computed nothing yet. Null if LibTorch was built without that runtime.
template <typename Function>
Function* runtime_function(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

struct Runtimes {
  void (*set_openmp)(int) = runtime_function<void(int)>("omp_set_num_threads");
  int (*set_mkl)(int) = runtime_function<int(int)>("MKL_Set_Num_Threads_Local");  // gives the number before
};

const Runtimes& runtimes() {
  static const Runtimes kRuntimes;
  return kRuntimes;
}

void set_openmp_threads(int threads) {
  runtimes().set_openmp != nullptr ? runtimes().set_openmp(threads) : at::set_num_threads(threads);
}

int set_mkl_threads(int threads) { return runtimes().set_mkl != nullptr ? runtimes().set_mkl(threads) : 0; }

// Note [A forked child]
// A child process has only the thread that called fork. OpenMP's runtime still counts on the other threads of
// its team in the parent, and would wait for them forever. So a forked child computes with one thread,
// whatever it is asked for. The handler is called in the child before fork returns there.
class ForkedChild {
 public:
  ForkedChild() {
    runtimes();  // looked up in the parent: a child may not wait for the loader's lock
    ::pthread_atfork(nullptr, nullptr, [] {
      forked_ = true;
      set_openmp_threads(1);
      set_mkl_threads(1);
    });
  }

  static bool here() noexcept { return forked_; }
  static int most(int threads) noexcept { return forked_ ? 1 : threads; }

 private:
  static inline std::atomic<bool> forked_ = false;
};

const ForkedChild kForkedChild;

// Note [Other work]
// OpenMP's threads wait for each other by spinning. That is fastest while each has a processor. If another
// process takes one of them, every stretch of shared work lasts until the thread that lost its processor has
// it back: a time slice, milliseconds. So shared work is watched, and if much time is lost so, it is shared
// among fewer threads: as many as there are processors left. From time to time one more is tried. Only what
// gives the same bits with any number of threads is shared so.
using Clock = std::chrono::steady_clock;

class OtherWork {
 public:
  /// How many of `all` threads work is shared among.
  static int leaves(int all) {
    if (all == 1 || taken_.load(std::memory_order_relaxed) == 0) return all;
    try_one_more();
    return std::max(all - taken_.load(std::memory_order_relaxed), 1);
  }

  /// Shared work took longer by `time`, because others used a processor. Little of it may be anything: an
  /// interrupt, a process that starts.
  static void note_lost(Clock::duration time) {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    if (now - window_ > kWindow) begin_window(now);
    if ((lost_ += time) < (now - tried_ < kWindow ? kMuchOfTrial : kMuch)) return;
    ++taken_;
    rest_ = now - tried_ < 2 * kWindow ? std::min<Clock::duration>(2 * rest_, kLongestRest) : kShortestRest;
    until_ = now + rest_;
    begin_window(now);
  }

 private:
  static void begin_window(Clock::time_point now) {
    window_ = now;
    lost_ = {};
  }

  static void try_one_more() {
    const auto now = Clock::now();
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || taken_ == 0 || now < until_) return;
    --taken_;
    tried_ = now;
    until_ = now + kWindow;
    begin_window(now);
  }

  static constexpr std::chrono::milliseconds kWindow{100}, kMuch{30}, kMuchOfTrial{15}, kShortestRest{200},
      kLongestRest{1600};
  static inline std::mutex mutex_;
  static inline std::atomic<int> taken_ = 0;  ///< processors that others use
  static inline Clock::time_point window_, tried_, until_;
  static inline Clock::duration lost_{}, rest_ = kShortestRest;
};

/// Watches shared work for time that is lost because others used a processor.
class SharedWork {
 public:
  SharedWork() : began_(Clock::now()), used_before_(own_time()) {}
  SharedWork(const SharedWork&) = delete;
  SharedWork& operator=(const SharedWork&) = delete;
  /// All threads are done.
  ~SharedWork() {
    if (put_aside_) OtherWork::note_lost(Clock::now() - began_ - used_);
  }

  /// The calling thread is done.
  void done() {
    const bool shares = std::this_thread::get_id() == caller_;
    const auto took = Clock::now() - began_;
    if (shares) used_ = took;
    if (took < kLeastSlice) return;  // asking the system would take longer than a look at the clock
    thread_local long before = -1;
    const long times = times_put_aside();
    if (before >= 0 && times > before) put_aside_ = true;
    before = times;
    if (shares) used_ = own_time() - used_before_;
  }

 private:
  /// Of the thread, on a processor. (That of getrusage may be a tick old.)
  static std::chrono::nanoseconds own_time() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }
  /// How often another thread took the processor from this one, which did not wait for anything.
  static long times_put_aside() {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
  }

  static constexpr std::chrono::milliseconds kLeastSlice{1};  ///< of time, that a scheduler gives

  std::thread::id caller_ = std::this_thread::get_id();
  Clock::time_point began_;
  std::chrono::nanoseconds used_before_, used_{};
  std::atomic<bool> put_aside_ = false;
};

void deal(std::int64_t count, std::int64_t workers, int threads_inside,
          const std::function<void(std::int64_t, std::int64_t)>& work) {
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto take_tasks = [&](std::int64_t worker) {
    const ThreadLimit limit(threads_inside);
    try {
      for (std::int64_t i = next++; i < count; i = next++) work(i, worker);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  };
  const at::ThreadLocalState modes;
  with_helpers(workers, [&](std::int64_t worker) {
    if (worker == 0) return take_tasks(0);
    const at::ThreadLocalStateGuard guard(modes);
    take_tasks(worker);
  });
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace

void for_each_task(std::int64_t count, const std::function<void(std::int64_t)>& work) {
  const std::int64_t workers = std::min<std::int64_t>(count, at::get_num_threads());
  deal(count, workers, /*threads_inside=*/1, [&](std::int64_t i, std::int64_t) { work(i); });
}

void for_each_dealt(std::int64_t count, std::int64_t workers,
                    const std::function<void(std::int64_t, std::int64_t)>& work) {
  deal(count, std::min(count, workers), at::get_num_threads(), work);
}

void share_stretches(std::int64_t count, std::int64_t least,
                     c10::function_ref<void(std::int64_t, std::int64_t)> work) {
  if (count <= least) {
    work(0, count);
    return;
  }
  const SparingThreads sparing;
  if (at::get_num_threads() == 1) {
    work(0, count);
    return;
  }
  // The iterator walks over one byte per number.
  at::Tensor bytes = at::empty({count}, at::TensorOptions(at::kByte));
  const char* const begin = static_cast<const char*>(bytes.const_data_ptr());
  auto iterator = at::TensorIterator::borrowing_nullary_op(bytes);
  SharedWork watched;
  iterator.for_each(
      [&](char** data, const std::int64_t* /*strides*/, std::int64_t size, std::int64_t stretches) {
        const std::int64_t first = data[0] - begin;
        work(first, first + size * stretches);
        watched.done();
      },
      least);
}

void share_operations(std::int64_t count, std::int64_t operations,
                      c10::function_ref<void(std::int64_t, std::int64_t)> work) {
  const std::int64_t each = std::max<std::int64_t>(operations / std::max<std::int64_t>(count, 1), 1);
  share_stretches(count, (kSerialOperations + each - 1) / each, work);
}

void share_among_threads(std::int64_t count, c10::function_ref<void(std::int64_t)> work) {
  const at::ThreadLocalState modes;  // LibTorch's threads do not have the caller's: inference mode and others
  share_stretches(count, 1, [&](std::int64_t first, std::int64_t end) {
    const at::ThreadLocalStateGuard guard(modes);
    const at::NoGradGuard no_grad;
    for (std::int64_t i = first; i < end; ++i) work(i);
  });
}

ThreadLimit::ThreadLimit(std::optional<int> threads) {
  if (threads && *threads < 1) {
    throw ShapeError(
        "threads", fmt::format("the number of threads is too small; expected at least 1, got {}", *threads));
  }
  if (ForkedChild::here()) threads = 1;
  if (!threads) return;
  // A thread's first parallel operator sets its number; later that would undo what is set here.
  openmp_before_ = at::get_num_threads();
  at::internal::lazy_init_num_threads();
  set_openmp_threads(*threads);
  mkl_before_ = set_mkl_threads(*threads);
}

ThreadLimit::~ThreadLimit() {
  if (!openmp_before_) return;
  set_openmp_threads(ForkedChild::most(*openmp_before_));
  set_mkl_threads(ForkedChild::most(mkl_before_));
}

SparingThreads::SparingThreads() {
  const int all = at::get_num_threads(), left = OtherWork::leaves(all);
  if (left < all) limit_.emplace(left);
}

}  // namespace hooked
