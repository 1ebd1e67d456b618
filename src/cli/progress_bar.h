#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hooked/core/progress.h"

namespace hooked::cli {

enum class ProgressUnit : std::uint8_t { steps, bytes };

/// `loading [######........................] 1.2 GiB of 5.9 GiB`, and if it is known, `, 4 min left`.
std::string progress_line(std::string_view label, ProgressUnit unit, std::uint64_t done, std::uint64_t total,
                          std::optional<double> seconds_left = std::nullopt);

/// A progress line on stderr, if stderr is a terminal and the work takes longer than `patience`; erased at
/// the end.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label, ProgressUnit unit = ProgressUnit::bytes,
                       std::chrono::milliseconds patience = std::chrono::seconds(2));
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Reports that `done` of `total` is done.
  void show(std::uint64_t done, std::uint64_t total, std::optional<double> seconds_left = std::nullopt);
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

}  // namespace hooked::cli
