#include "cli/watched_work.h"

#include <fmt/format.h>

#include "cli/interrupt.h"
#include "cli/output.h"

namespace hooked::cli {

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
