#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
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

constexpr std::size_t kCells = 30, kLeastCells = 10;
constexpr std::size_t kUnknownColumns = 80;
constexpr std::chrono::milliseconds kBetween{100};

// `40 s left`, `4 min left`, `2.5 h left`
std::string time_text(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s left", std::ceil(seconds));
  if (seconds < 90 * 60) return fmt::format("{:.0f} min left", seconds / 60);
  return fmt::format("{:.1f} h left", seconds / 3600);
}

// Asked anew for each line: the window may have been resized. The last column stays free, as a terminal may
// go on to the next line after a character there.
std::size_t free_columns() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return (known ? size.ws_col : kUnknownColumns) - 1;
}

// `text` in at most that many columns, with dots for what is left out.
std::string shortened(std::string_view text, std::size_t columns) {
  constexpr std::string_view kDots = "..";
  if (text.size() <= columns) return std::string(text);
  if (columns <= kDots.size()) return {};
  return fmt::format("{}{}", text.substr(0, columns - kDots.size()), kDots);
}

}  // namespace

std::string progress_line(std::string_view label, const ProgressAmount& amount, std::size_t columns) {
  const auto text = [&](std::uint64_t number) {
    return amount.unit == ProgressUnit::bytes ? size_text(number) : std::to_string(number);
  };
  std::string numbers = fmt::format("{} of {}", text(amount.done), text(amount.total));
  std::string time = amount.seconds_left ? ", " + time_text(*amount.seconds_left) : "";
  // What says least goes first: the bar, the end of the label, the time, the label.
  constexpr std::size_t kAround = 4, kLeastLabel = 8;  // ` [` and `] `
  const std::size_t least = label.size() + numbers.size() + time.size();
  if (least + kAround + kLeastCells <= columns) {
    const std::size_t cells = std::min(kCells, columns - least - kAround);
    const double share = amount.total == 0 ? 1
                                           : static_cast<double>(std::min(amount.done, amount.total)) /
                                                 static_cast<double>(amount.total);
    const auto filled = static_cast<std::size_t>(share * static_cast<double>(cells));
    return fmt::format("{} [{}{}] {}{}", label, std::string(filled, '#'), std::string(cells - filled, '.'),
                       numbers, time);
  }
  const std::size_t label_kept = std::min(label.size(), kLeastLabel);
  if (label_kept + 1 + numbers.size() + time.size() > columns) time.clear();
  if (label_kept + 1 + numbers.size() > columns) return shortened(numbers, columns);
  return fmt::format("{} {}{}", shortened(label, columns - 1 - numbers.size() - time.size()), numbers, time);
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
  fmt::print(stderr, "\r{}\033[K", progress_line(label_, {unit_, done, total, seconds_left}, free_columns()));
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

void print_ended_early(const std::vector<std::string>& rest) {
  fmt::print("\nended early: {}\n", fmt::join(rest, ", "));
}

void print_ended_early(std::int64_t done, std::int64_t total, const char* unit) {
  print_ended_early({fmt::format("{} of {} {}", grouped(done), grouped(total), unit)});
}

}  // namespace hooked::cli
