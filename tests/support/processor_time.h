#pragma once

#include <ctime>

namespace hooked {

/// Seconds of processors that this process has taken: what other processes do does not change it.
inline double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace hooked
