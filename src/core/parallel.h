#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace hooked {

/// Calls `work(i)` for every i from 0 to `count`, on as many threads as LibTorch may use
/// (`at::get_num_threads()`), the caller among them: each takes the next number when it is free. What
/// LibTorch computes inside stays on that thread (Note [Large tasks]). On one thread, and inside another such
/// call, the numbers come in order. The caller's modes (gradients, inference) hold inside. Throws what `work`
/// threw first; numbers that were not begun by then are left out.
void for_each_task(std::int64_t count, const std::function<void(std::int64_t)>& work);

/// Calls `work(i, worker)` for every i from 0 to `count`, on a thread for each of the `workers`, of which the
/// caller's is number 0: each takes the next i when it is free. For work that other devices do. LibTorch may
/// use as many threads inside as the caller. Modes and what is thrown as above.
void for_each_dealt(std::int64_t count, std::int64_t workers,
                    const std::function<void(std::int64_t, std::int64_t)>& work);

/// How many threads LibTorch may use for what the calling thread computes. Only that thread is concerned;
/// the number before comes back at the end.
class ThreadLimit {
 public:
  /// Nothing: as it is. Throws ShapeError for less than one.
  explicit ThreadLimit(std::optional<int> threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  std::optional<int> openmp_before_;
  int mkl_before_ = 0;
};

}  // namespace hooked
