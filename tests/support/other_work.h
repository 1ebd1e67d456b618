#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "core/parallel.h"

namespace hooked {

/// Keeps every processor busy, as other processes would.
class OtherWorkload {
 public:
  OtherWorkload() {
    for (unsigned i = 0; i < 2 * std::max(1U, std::thread::hardware_concurrency()); ++i) {
      busy_.emplace_back([](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
        }
      });
    }
  }

 private:
  std::vector<std::jthread> busy_;
};

/// Tries `happens` again and again, for at most a minute: whether it did.
inline bool comes_true(const std::function<bool()>& happens) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!happens()) {
    if (std::chrono::steady_clock::now() > end) return false;
  }
  return true;
}

/// Whether two threads' work, a millisecond for each, goes to one of them.
inline bool is_spared() {
  const ThreadLimit limit(2);
  share_stretches(2, 1, [](std::int64_t, std::int64_t) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
    while (std::chrono::steady_clock::now() < end) {
    }
  });
  const SparingThreads sparing;
  return at::get_num_threads() == 1;
}

/// Works next to others until that is noticed: for a while after that, work is shared among fewer threads.
inline bool see_other_work() {
  const OtherWorkload other;
  return comes_true(is_spared);
}

}  // namespace hooked
