#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace hooked::cli {
namespace {

constexpr std::int64_t kCells = 30;

}  // namespace

ProgressBar::ProgressBar(std::string label, std::int64_t total)
    : label_(std::move(label)),
      total_(std::max<std::int64_t>(total, 1)),
      visible_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (visible_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::advance() {
  ++done_;
  if (!visible_) return;
  const auto filled = static_cast<std::size_t>(kCells * done_ / total_);
  fmt::print(stderr, "\r{} [{}{}] {}/{}", label_, std::string(filled, '#'), std::string(kCells - filled, '.'),
             done_, total_);
  std::fflush(stderr);
}

}  // namespace hooked::cli
