// What the tests of load share: how much of it, and memory that must not grow.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/process_memory.h"

namespace hooked::soak {

/// The share of the whole load that is run: HOOKED_SOAK, 1 for all of it (scripts/soak.sh). The suite runs a
/// hundredth.
inline double scale() {
  const char* asked = std::getenv("HOOKED_SOAK");
  return asked == nullptr ? 0.01 : std::atof(asked);
}

/// That share of `whole`, but at least `least`.
inline std::int64_t scaled(std::int64_t whole, std::int64_t least = 1) {
  return std::max(least, static_cast<std::int64_t>(static_cast<double>(whole) * scale()));
}

/// What would look like a leak, or hide one. oneDNN and ideep, which compute products for LibTorch, keep what
/// they compiled for the sizes of the last 1,024 products, up to 100 MB; they read these variables at the
/// first one. And the system may put a heap with gaps onto huge pages, minutes later, gaps included.
inline const bool kOnlyLeaksGrow = ::setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16", 0) == 0 &&
                                   ::setenv("LRU_CACHE_CAPACITY", "16", 0) == 0 &&
                                   ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0;

/// Whether resident memory says anything: sanitizers keep what was freed.
inline bool memory_counts() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  return process_status("VmRSS") > 0;
#endif
}

inline std::int64_t open_files() {
  std::int64_t count = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

inline double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// Resident bytes that are in use: what the C library keeps of freed memory goes back first.
inline std::int64_t resident_in_use() {
  ::malloc_trim(0);
  return process_status("VmRSS");
}

/// The line of a test that docs/reliability.md takes its figure from.
template <typename... Arguments>
void say(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  fmt::print("[soak] {}\n", fmt::format(text, std::forward<Arguments>(arguments)...));
}

/// Calls `work(i)` for i from 0 to `times`. After the first tenth, and at least `warm` calls, in which the
/// process grows to its size, resident memory in use may grow by 4 MiB at most, and no file may stay open.
template <typename Work>
void expect_flat(const std::string& what, std::int64_t times, std::int64_t warm, const Work& work) {
  using Clock = std::chrono::steady_clock;
  warm = std::max(warm, times / 10);
  ASSERT_LT(warm, times);
  const auto began = Clock::now();
  for (std::int64_t i = 0; i < warm; ++i) work(i);
  const std::int64_t before = resident_in_use(), files = open_files();
  for (std::int64_t i = warm; i < times; ++i) work(i);
  const std::int64_t with_freed = process_status("VmRSS"), after = resident_in_use();
  say("{} {}: {:.1f} s, resident {:.1f} MiB after the first {}, {:.1f} MiB in the end ({:.1f} with what was "
      "freed)",
      times, what, std::chrono::duration<double>(Clock::now() - began).count(), mebibytes(before), warm,
      mebibytes(after), mebibytes(with_freed));
  if (memory_counts()) {
    EXPECT_LE(mebibytes(after - before), 4) << what;
  }
  EXPECT_EQ(open_files(), files) << what;
}

}  // namespace hooked::soak
