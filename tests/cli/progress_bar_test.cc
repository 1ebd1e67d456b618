#include "cli/progress_bar.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

namespace hooked::progress_bar_test {
namespace {

using cli::progress_line;
using cli::ProgressUnit;

constexpr std::size_t kWide = 200;  // columns

TEST(ProgressLine, ShowsHowMuchIsDone) {
  EXPECT_EQ(progress_line("loading", {ProgressUnit::bytes, 3 << 20, 6 << 20}, kWide),
            "loading [###############...............] 3.0 MiB of 6.0 MiB");
  EXPECT_EQ(progress_line("timing", {ProgressUnit::steps, 0, 7}, kWide),
            "timing [..............................] 0 of 7");
  EXPECT_EQ(progress_line("saving", {ProgressUnit::bytes, 8, 8}, kWide),
            "saving [##############################] 8 bytes of 8 bytes");
  const auto left = [](double seconds) {
    const std::string line = progress_line("resid_pre", {ProgressUnit::steps, 1, 2, seconds}, kWide);
    return line.substr(line.find("1 of 2"));
  };
  EXPECT_EQ(left(0.2), "1 of 2, 1 s left");
  EXPECT_EQ(left(240), "1 of 2, 4 min left");
  EXPECT_EQ(left(9000), "1 of 2, 2.5 h left");
}

TEST(ProgressLine, FitsTheCellsWhateverItIsTold) {
  const auto cells = [](std::uint64_t done, std::uint64_t total) {
    const std::string line = progress_line("x", {ProgressUnit::steps, done, total}, kWide);
    return line.find(']') - line.find('[') - 1;
  };
  EXPECT_EQ(cells(0, 0), 30u);
  EXPECT_EQ(cells(9, 3), 30u);
  EXPECT_EQ(cells(1, ~std::uint64_t{0}), 30u);
}

TEST(ProgressLine, IsNoWiderThanTheTerminal) {
  const auto in = [](std::size_t columns) {
    return progress_line("attn_head_pattern_dest_src_pos", {ProgressUnit::steps, 1520, 4320, 40.0}, columns);
  };
  EXPECT_EQ(in(86).size(), 86u) << "the bar gets shorter first";
  EXPECT_EQ(in(79), "attn_head_pattern_dest_src_pos [#######...............] 1520 of 4320, 40 s left");
  EXPECT_EQ(in(67), "attn_head_pattern_dest_src_pos [###.......] 1520 of 4320, 40 s left");
  EXPECT_EQ(in(66), "attn_head_pattern_dest_src_pos 1520 of 4320, 40 s left");
  EXPECT_EQ(in(39), "attn_head_pat.. 1520 of 4320, 40 s left");
  EXPECT_EQ(in(30), "attn_head_patte.. 1520 of 4320");
  EXPECT_EQ(in(20), "1520 of 4320");
  EXPECT_EQ(in(8), "1520 o..");
  EXPECT_EQ(in(1), "");
  for (std::size_t columns = 0; columns < kWide; ++columns) EXPECT_LE(in(columns).size(), columns);
}

/// What is written to stderr while `act` runs, if stderr is a terminal.
std::string on_terminal(const std::function<void()>& act, unsigned short columns = 0) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) return "no terminal";
  const int inside = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY);
  winsize size{};
  size.ws_col = columns;
  ::ioctl(inside, TIOCSWINSZ, &size);
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
  EXPECT_EQ(written, "\r" + progress_line("loading", {ProgressUnit::steps, 1, 5}, 79) + "\033[K\r\033[K");
}

TEST(ProgressBar, FollowsTheWidthOfTheTerminal) {
  const std::string written = on_terminal(
      [] {
        cli::ProgressBar bar("attn_head_out_by_pos", ProgressUnit::steps, kAtOnce);
        bar.show(1, 5);
        winsize size{};
        size.ws_col = 20;
        ::ioctl(STDERR_FILENO, TIOCSWINSZ, &size);
        ::usleep(150'000);  // until the next line is due
        bar.show(2, 5);
      },
      60);
  EXPECT_EQ(written,
            "\rattn_head_out_by_pos [#####........................] 1 of 5\033[K"
            "\rattn_head_.. 2 of 5\033[K\r\033[K");
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
