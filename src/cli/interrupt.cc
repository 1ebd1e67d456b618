#include "cli/interrupt.h"

#include <unistd.h>

#include <cerrno>

#include "hooked/hooks/act.h"

namespace hooked::cli {
namespace {

volatile std::sig_atomic_t noted = 0;  // a handler can only reach globals

void note(int) {
  static constexpr char kNotice[] = "\nhooked: interrupted, ending after this step; once more ends at once\n";
  const int code = errno;
  noted = 1;
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kNotice, sizeof kNotice - 1);
  errno = code;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  noted = 0;
  ::sigaction(SIGINT, nullptr, &before_);
  if (before_.sa_handler == SIG_IGN) return;
  struct sigaction once {};
  once.sa_handler = note;
  once.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);  // the next signal has its usual effect
  sigemptyset(&once.sa_mask);
  ::sigaction(SIGINT, &once, nullptr);
}

InterruptGuard::~InterruptGuard() { ::sigaction(SIGINT, &before_, nullptr); }

bool interrupted() noexcept { return noted != 0; }

Hook interrupt_hook() {
  return {act::resid_post, [](const at::Tensor&) {
            if (interrupted()) throw Interrupted("while the model ran");
          }};
}

void end_as_interrupted() {
  std::signal(SIGINT, SIG_DFL);
  std::raise(SIGINT);
}

}  // namespace hooked::cli
