#pragma once

#include <csignal>

namespace hooked::cli {

/// While one lives, the first SIGINT (Ctrl-C) is noted, so that the work can end after its current step and
/// leave what is there; the second ends the program at once. A program that was started to ignore SIGINT goes
/// on ignoring it.
class [[nodiscard]] InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction before_ {};
};

/// Whether a SIGINT was noted by the last guard, which may be gone.
bool interrupted() noexcept;

/// Ends the program as SIGINT does, so that a shell's loop around it ends as well; `$?` is then 130.
void end_as_interrupted();

}  // namespace hooked::cli
