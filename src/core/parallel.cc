#include "core/parallel.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

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
  if (count <= least || at::get_num_threads() == 1) {
    work(0, count);
    return;
  }
  // The iterator walks over one byte per number.
  at::Tensor bytes = at::empty({count}, at::TensorOptions(at::kByte));
  const char* const begin = static_cast<const char*>(bytes.const_data_ptr());
  auto iterator = at::TensorIterator::borrowing_nullary_op(bytes);
  iterator.for_each(
      [&](char** data, const std::int64_t* /*strides*/, std::int64_t size, std::int64_t stretches) {
        const std::int64_t first = data[0] - begin;
        work(first, first + size * stretches);
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

}  // namespace hooked
