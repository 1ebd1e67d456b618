#pragma once

#include <cstdint>
#include <future>
#include <system_error>
#include <thread>
#include <vector>

namespace hooked {

/// For std::async: on a thread of its own, or, if the system has no room for one, when the result is asked
/// for.
inline constexpr std::launch kAhead = std::launch::async | std::launch::deferred;

/// Calls task(0) here and task(1) to task(workers - 1) on threads of their own, and waits for all. Where the
/// system has no room for another thread, those that there are must do all of the work. A task throws
/// nothing.
template <typename Task>
void with_helpers(std::int64_t workers, const Task& task) {
  std::vector<std::jthread> helpers;
  try {
    for (std::int64_t worker = 1; worker < workers; ++worker)
      helpers.emplace_back([&task, worker] { task(worker); });
  } catch (const std::system_error&) {
  }
  task(0);
}

}  // namespace hooked
