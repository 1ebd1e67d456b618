#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hooked/analysis/sweep_progress.h"
#include "hooked/core/progress.h"

namespace hooked::cli {

enum class ProgressUnit : std::uint8_t { steps, bytes };

/// How much of a work is done.
struct ProgressAmount {
  ProgressUnit unit;
  std::uint64_t done, total;
  std::optional<double> seconds_left = std::nullopt;
};

/// `loading [######........................] 1.2 GiB of 5.9 GiB`, and if it is known, `, 4 min left`. In few
/// columns the bar is shorter, then it is left out, then the end of the label, and the time. For labels in
/// ASCII.
std::string progress_line(std::string_view label, const ProgressAmount& amount, std::size_t columns);

/// A progress line on stderr, no wider than the terminal, if stderr is one and the work takes longer than
/// `patience`; erased at the end.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label, ProgressUnit unit = ProgressUnit::bytes,
                       std::chrono::milliseconds patience = std::chrono::seconds(2));
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Reports that `done` of `total` is done.
  void show(std::uint64_t done, std::uint64_t total, std::optional<double> seconds_left = std::nullopt);
  /// What the next line begins with.
  void label(std::string text) { label_ = std::move(text); }
  /// A function that calls `show`; must not outlive this.
  Progress progress();

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  ProgressUnit unit_;
  bool on_terminal_;
  bool shown_ = false;
  Clock::time_point next_;  // next time to write the line
};

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

/// After partial results: says what is there and what is not, `ended early: ` and these joined by commas.
void print_ended_early(const std::vector<std::string>& rest);
/// The same for one number: `ended early: 40 of 1,000 rows`.
void print_ended_early(std::int64_t done, std::int64_t total, const char* unit);

}  // namespace hooked::cli
