#pragma once

#include <cstdint>
#include <string>

namespace hooked::cli {

/// A bar on stderr while something runs, if stderr is a terminal; erased at the end.
class ProgressBar {
 public:
  ProgressBar(std::string label, std::int64_t total);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// One more of `total` is done.
  void advance();

 private:
  std::string label_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  bool visible_;
};

}  // namespace hooked::cli
