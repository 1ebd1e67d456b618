#include "cli/progress_bar.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

namespace hooked::progress_bar_test {
namespace {

using cli::progress_line;
using cli::ProgressUnit;

TEST(ProgressLine, ShowsHowMuchIsDone) {
  EXPECT_EQ(progress_line("loading", ProgressUnit::bytes, 3 << 20, 6 << 20),
            "loading [###############...............] 3.0 MiB of 6.0 MiB");
  EXPECT_EQ(progress_line("timing", ProgressUnit::steps, 0, 7),
            "timing [..............................] 0 of 7");
  EXPECT_EQ(progress_line("saving", ProgressUnit::bytes, 8, 8),
            "saving [##############################] 8 bytes of 8 bytes");
  const auto left = [](double seconds) {
    const std::string line = progress_line("resid_pre", ProgressUnit::steps, 1, 2, seconds);
    return line.substr(line.find("1 of 2"));
  };
  EXPECT_EQ(left(0.2), "1 of 2, 1 s left");
  EXPECT_EQ(left(240), "1 of 2, 4 min left");
  EXPECT_EQ(left(9000), "1 of 2, 2.5 h left");
}

TEST(ProgressLine, FitsTheCellsWhateverItIsTold) {
  const auto cells = [](std::uint64_t done, std::uint64_t total) {
    const std::string line = progress_line("x", ProgressUnit::steps, done, total);
    return line.find(']') - line.find('[') - 1;
  };
  EXPECT_EQ(cells(0, 0), 30u);
  EXPECT_EQ(cells(9, 3), 30u);
  EXPECT_EQ(cells(1, ~std::uint64_t{0}), 30u);
}

/// What is written to stderr while `act` runs, if stderr is a terminal.
std::string on_terminal(const std::function<void()>& act) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) return "no terminal";
  const int inside = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY);
  const int before = ::dup(STDERR_FILENO);
  ::dup2(inside, STDERR_FILENO);
  act();
  std::fflush(stderr);
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::fcntl(terminal, F_SETFL, O_NONBLOCK);
  std::string written;
  char chunk[4096];
  for (ssize_t n = 0; (n = ::read(terminal, chunk, sizeof chunk)) > 0;)
    written.append(chunk, static_cast<std::size_t>(n));
  ::close(inside);
  ::close(terminal);
  return written;
}

// From the first report on.
constexpr std::chrono::milliseconds kAtOnce{0};

TEST(ProgressBar, IsALineOnATerminalAndIsErased) {
  const std::string written = on_terminal([] {
    cli::ProgressBar bar("loading", ProgressUnit::steps, kAtOnce);
    bar.progress()(1, 5);
  });
  EXPECT_EQ(written, "\r" + progress_line("loading", ProgressUnit::steps, 1, 5) + "\033[K\r\033[K");
}

TEST(ProgressBar, SaysNothingOfWhatIsSoonDone) {
  EXPECT_EQ(on_terminal([] {
              cli::ProgressBar bar("loading", ProgressUnit::steps, std::chrono::hours(1));
              for (std::uint64_t i = 0; i <= 5; ++i) bar.show(i, 5);
            }),
            "");
}

TEST(ProgressBar, SaysNothingWithoutATerminal) {
  testing::internal::CaptureStderr();  // a file
  {
    cli::ProgressBar bar("loading", ProgressUnit::steps, kAtOnce);
    for (std::uint64_t i = 0; i <= 5; ++i) bar.show(i, 5);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace hooked::progress_bar_test
