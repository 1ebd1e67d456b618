#pragma once

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

}  // namespace hooked
