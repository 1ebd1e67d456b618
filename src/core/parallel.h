#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace hooked {

/// Calls `work(i)` for every i from 0 to `count`, on as many threads as LibTorch may use
/// (`at::get_num_threads()`), including the caller's: each takes the next number when it is free. What
/// LibTorch computes inside stays on that thread (Note [Large tasks]). On one thread, and inside another such
/// call, the numbers come in order. The caller's modes (gradients, inference) also apply inside. Throws what
/// `work` threw first; numbers that had not started by then are skipped.
void for_each_task(std::int64_t count, const std::function<void(std::int64_t)>& work);

/// Calls `work(i, worker)` for every i from 0 to `count`, on one thread per worker; the caller's is worker 0.
/// Each takes the next i when it is free. For work that other devices do. LibTorch may use as many threads
/// inside as the caller. Modes and exceptions as above.
void for_each_dealt(std::int64_t count, std::int64_t workers,
                    const std::function<void(std::int64_t, std::int64_t)>& work);

/// Below this number of floating-point operations (some 10 µs of one thread) starting and joining threads
/// costs more than it saves, and much more if another process is busy.
inline constexpr std::int64_t kSerialOperations = std::int64_t{1} << 19;

/// Calls `work(first, end)` for stretches of the numbers from 0 to `count`, on LibTorch's threads, until all
/// are done. A thread gets consecutive numbers, `least` of them or more; few numbers are one stretch on the
/// calling thread, whose operators may use all threads. (at::parallel_for is serial in our sources, which are
/// compiled without OpenMP; LibTorch's iterator is not.)
void share_stretches(std::int64_t count, std::int64_t least,
                     c10::function_ref<void(std::int64_t first, std::int64_t end)> work);

/// The same for numbers that together take `operations` floating-point operations: a thread gets at least
/// kSerialOperations of them.
void share_operations(std::int64_t count, std::int64_t operations,
                      c10::function_ref<void(std::int64_t first, std::int64_t end)> work);

/// The same for tasks of tens of microseconds and more, each with LibTorch's operators inside
/// (for_each_task is for large ones). These operators stay on the task's thread, and record no gradients.
void share_among_threads(std::int64_t count, c10::function_ref<void(std::int64_t)> work);

/// Limits how many threads LibTorch may use for what the calling thread computes. Only that thread is
/// affected; its previous number is restored at the end.
class ThreadLimit {
 public:
  /// Nothing: no change. Throws ShapeError for less than one.
  explicit ThreadLimit(std::optional<int> threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  std::optional<int> openmp_before_;
  int mkl_before_ = 0;
};

/// While other processes use some of the processors, LibTorch's operators on the calling thread use that many
/// threads fewer (Note [Other work]). For operators that give the same bits with any number of threads.
class SparingThreads {
 public:
  SparingThreads();

 private:
  std::optional<ThreadLimit> limit_;
};

}  // namespace hooked
