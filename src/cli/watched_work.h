#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "cli/progress_bar.h"
#include "hooked/analysis/sweep_progress.h"

namespace hooked::cli {

/// An analysis that takes a while: shown on a bar, and ended after its current step by Ctrl-C, which an
/// existing InterruptGuard records.
class WatchedWork {
 public:
  explicit WatchedWork(std::string label) { bar_.emplace(std::move(label), ProgressUnit::steps); }

  /// The analysis reports its progress to this function; must not outlive this.
  std::function<bool(const SweepProgress&)> progress();
  /// Removes the bar: before anything is printed, if this still exists.
  void end() { bar_.reset(); }

  /// Whether it was not ended early.
  bool complete() const { return done_ == total_; }
  std::int64_t done() const { return done_; }    ///< steps
  std::int64_t total() const { return total_; }  ///< steps

 private:
  std::optional<ProgressBar> bar_;
  std::int64_t done_ = 0, total_ = 0;
};

/// After partial results: says that they are not complete.
void print_ended_early();
/// The same with numbers: `ended early: 40 of 1,000 rows`.
void print_ended_early(std::int64_t done, std::int64_t total, const char* unit);

}  // namespace hooked::cli
