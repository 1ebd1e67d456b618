#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "cli/interrupt.h"
#include "cli/output.h"
#include "core/size_text.h"

namespace hooked::cli {
namespace {

constexpr std::size_t kCells = 30;
constexpr std::chrono::milliseconds kBetween{100};

// `40 s left`, `4 min left`, `2.5 h left`
std::string time_text(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s left", std::ceil(seconds));
  if (seconds < 90 * 60) return fmt::format("{:.0f} min left", seconds / 60);
  return fmt::format("{:.1f} h left", seconds / 3600);
}

}  // namespace

std::string progress_line(std::string_view label, ProgressUnit unit, std::uint64_t done, std::uint64_t total,
                          std::optional<double> seconds_left) {
  const double share =
      total == 0 ? 1 : static_cast<double>(std::min(done, total)) / static_cast<double>(total);
  const auto filled = static_cast<std::size_t>(share * kCells);
  const auto text = [&](std::uint64_t amount) {
    return unit == ProgressUnit::bytes ? size_text(amount) : std::to_string(amount);
  };
  return fmt::format("{} [{}{}] {} of {}{}", label, std::string(filled, '#'),
                     std::string(kCells - filled, '.'), text(done), text(total),
                     seconds_left ? ", " + time_text(*seconds_left) : "");
}

ProgressBar::ProgressBar(std::string label, ProgressUnit unit, std::chrono::milliseconds patience)
    : label_(std::move(label)),
      unit_(unit),
      on_terminal_(::isatty(STDERR_FILENO) == 1),
      next_(Clock::now() + patience) {}

ProgressBar::~ProgressBar() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::show(std::uint64_t done, std::uint64_t total, std::optional<double> seconds_left) {
  if (!on_terminal_ || Clock::now() < next_) return;
  next_ = Clock::now() + kBetween;
  shown_ = true;
  fmt::print(stderr, "\r{}\033[K", progress_line(label_, unit_, done, total, seconds_left));
  std::fflush(stderr);
}

Progress ProgressBar::progress() {
  return [this](std::uint64_t done, std::uint64_t total) { show(done, total); };
}

std::function<bool(const SweepProgress&)> WatchedWork::progress() {
  return [this](const SweepProgress& now) {
    done_ = now.done;
    total_ = now.total;
    if (bar_)
      bar_->show(static_cast<std::uint64_t>(now.done), static_cast<std::uint64_t>(now.total),
                 now.seconds_left);
    return !interrupted();
  };
}

void print_ended_early() { fmt::print("\nended early\n"); }

void print_ended_early(std::int64_t done, std::int64_t total, const char* unit) {
  fmt::print("\nended early: {} of {} {}\n", grouped(done), grouped(total), unit);
}

}  // namespace hooked::cli
