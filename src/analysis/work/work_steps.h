#pragma once

#include <cstdint>
#include <functional>

#include "analysis/work/work_clock.h"

namespace hooked {

/// Work of a number of steps, which a caller may watch and end.
class WorkSteps {
 public:
  /// `watch` must outlive this; it may be empty.
  WorkSteps(std::int64_t total, const std::function<bool(const SweepProgress&)>& watch)
      : total_(total), watch_(watch) {}

  /// Reports that `steps` are done; false if the work is to end before the last.
  bool done(std::int64_t steps) const { return continues(steps) || steps == total_; }
  /// Asks in the middle of a step, after `steps`, whether the work continues.
  bool continues(std::int64_t steps) const { return !watch_ || watch_(clock_.at(steps, total_)); }
  bool watched() const { return static_cast<bool>(watch_); }

 private:
  std::int64_t total_;
  const std::function<bool(const SweepProgress&)>& watch_;
  WorkClock clock_;
};

}  // namespace hooked
