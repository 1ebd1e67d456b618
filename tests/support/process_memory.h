#pragma once

#include <malloc.h>
#include <sys/prctl.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace hooked {

/// A figure of /proc/self/status in bytes; -1 if the system does not report it.
inline std::int64_t process_status(const std::string& field) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) * 1024;
  }
  return -1;
}

/// Resets the peak that the system remembers; false if it does not let us.
inline bool forget_peak() {
  ::malloc_trim(0);
  std::ofstream out("/proc/self/clear_refs");
  out << "5" << std::flush;
  return static_cast<bool>(out);
}

/// Why peaks say nothing here; or empty, and then the peak is reset.
inline std::string why_no_peaks() {
#if defined(__SANITIZE_ADDRESS__)
  return "a sanitizer has memory of its own";
#elif defined(HOOKED_EMULATED)
  return "an emulator has memory of its own";
#else
  return forget_peak() && process_status("VmHWM") >= 0 ? "" : "this system does not tell the peak";
#endif
}

/// How much more memory this process holds at one time than it held when this was made. Meanwhile freed
/// blocks go back to the system, and the system does not put a heap with gaps onto huge pages: both would
/// count what is not held, and how much depends on what ran before and on what else runs.
class PeakMemory {
 public:
  PeakMemory() {
    ::mallopt(M_MMAP_THRESHOLD, 128 << 10);
    ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    forget_peak();
    before_ = process_status("VmRSS");
  }
  ~PeakMemory() {
    ::prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
    ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest that the C library chooses
  }
  PeakMemory(const PeakMemory&) = delete;
  PeakMemory& operator=(const PeakMemory&) = delete;

  std::int64_t bytes() const { return process_status("VmHWM") - before_; }

 private:
  std::int64_t before_ = 0;
};

}  // namespace hooked
