#pragma once

#include <cstdint>
#include <functional>

#include "analysis/work/work_clock.h"

namespace hooked {

/// Work of so many steps, which somebody may watch and end.
class WorkSteps {
 public:
  /// `watch` must live as long; it may be empty.
  WorkSteps(std::int64_t total, const std::function<bool(const SweepProgress&)>& watch)
      : total_(total), watch_(watch) {}

  /// Says that so many are done; false where the work is to end before the last.
  bool done(std::int64_t steps) const {
    return !watch_ || watch_(clock_.at(steps, total_)) || steps == total_;
  }

 private:
  std::int64_t total_;
  const std::function<bool(const SweepProgress&)>& watch_;
  WorkClock clock_;
};

}  // namespace hooked
