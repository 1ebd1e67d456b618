#pragma once

#include <csignal>
#include <stdexcept>
#include <string>

#include "hooked/hooks/hook.h"

namespace hooked::cli {

/// While one exists, the first SIGINT (Ctrl-C) is only recorded, so that the work can end after its current
/// step and keep its results; the second ends the program at once. A program that was started to ignore
/// SIGINT still ignores it.
class [[nodiscard]] InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction before_ {};
};

/// Whether the last guard recorded a SIGINT; it may be gone.
bool interrupted() noexcept;

/// Thrown to end work on Ctrl-C of which nothing is kept: a step of it, such as a model's run, may take long.
class Interrupted : public std::runtime_error {
 public:
  /// `what` was going on: `while the model ran`.
  explicit Interrupted(const std::string& what)
      : std::runtime_error("ended by Ctrl-C " + what + "; nothing is kept") {}
};

/// For a run under a guard: throws Interrupted after the layer in which Ctrl-C came, so that nothing of the
/// run is kept.
Hook interrupt_hook();

/// Ends the program as SIGINT does, so that a surrounding shell loop ends as well; `$?` is then 130.
void end_as_interrupted();

}  // namespace hooked::cli
