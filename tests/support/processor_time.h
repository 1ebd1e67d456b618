#pragma once

#include <sys/resource.h>

#include <ctime>

namespace hooked {

/// A limit for reading what a huge checkpoint says of itself. Slow machines take some ten seconds; reading
/// its numbers, or comparing each tensor with all others, would take minutes on any.
inline constexpr double kSecondsForHeaders = 60.0;

/// Processor seconds that this process has used, unaffected by other processes.
inline double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Processor seconds that the ended children of this process have used.
inline double child_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace hooked
