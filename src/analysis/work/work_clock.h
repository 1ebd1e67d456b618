#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "hooked/analysis/sweep_progress.h"

namespace hooked {

/// Measures how long some work takes.
class WorkClock {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }
  /// The progress when `done` of `total` are done.
  SweepProgress at(std::int64_t done, std::int64_t total) const {
    const double so_far = seconds();
    SweepProgress progress{.done = done, .total = total, .seconds = so_far, .seconds_left = std::nullopt};
    if (done > 0)
      progress.seconds_left = so_far / static_cast<double>(done) * static_cast<double>(total - done);
    return progress;
  }

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace hooked
