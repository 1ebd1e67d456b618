#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "cli/progress_bar.h"
#include "hooked/analysis/sweep_progress.h"

namespace hooked::cli {

/// An analysis that takes its time: shown on a bar, and ended after its current step by Ctrl-C, which a
/// living InterruptGuard notes.
class WatchedWork {
 public:
  explicit WatchedWork(std::string label) { bar_.emplace(std::move(label), ProgressUnit::steps); }

  /// What the analysis tells how far it is; not for longer than this lives.
  std::function<bool(const SweepProgress&)> progress();
  /// Takes the bar away: before anything is printed, if this lives on.
  void end() { bar_.reset(); }

  /// Whether it was not ended before its last step.
  bool complete() const { return done_ == total_; }
  std::int64_t done() const { return done_; }    ///< steps
  std::int64_t total() const { return total_; }  ///< steps

 private:
  std::optional<ProgressBar> bar_;
  std::int64_t done_ = 0, total_ = 0;
};

/// After what is there: that it is not all.
void print_ended_early();
/// The same with how much it is: `ended early: 40 of 1,000 rows`.
void print_ended_early(std::int64_t done, std::int64_t total, const char* unit);

}  // namespace hooked::cli
