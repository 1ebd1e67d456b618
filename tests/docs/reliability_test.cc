// docs/reliability.md and SECURITY.md are true: the commands of the page pass, the files that it names exist,
// and the program cannot do what it promises not to do.
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "tests/docs/pages.h"
#include "tests/support/run_program.h"

namespace hooked::reliability_test {
namespace {

/// A row of the page: the last two cells say how long the command takes and what it is.
struct Promise {
  std::string text, tests, takes, command;

  /// Commands of a minute and more are run by hand.
  bool is_long() const { return takes.starts_with("long: "); }
};

std::vector<Promise> promises() {
  std::vector<Promise> all;
  const std::regex row(R"(\| (.+) \| (.+) \| (.+) \| (.+) \| `(.+)` \|)");
  bool inside = false;
  for (const std::string& line : lines_of(read("docs/reliability.md"))) {
    inside = line.starts_with("| promise ") || (inside && line.starts_with("|"));
    if (!inside || line.starts_with("| promise ") || line.starts_with("|---")) continue;
    std::smatch cells;
    if (std::regex_match(line, cells, row)) {
      all.push_back({cells[1], cells[2], cells[4], cells[5]});
    } else {
      ADD_FAILURE() << "expected promise, test, figure, time and `command`: " << line;
    }
  }
  return all;
}

TEST(Reliability, EveryCommandIsRunOrMarkedAsLong) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the suite runs these tests under sanitizers as well; their times are others";
#endif
  const std::regex seconds("[0-9]+ s"), some_passed(R"(\[  PASSED  \] [1-9])");
  int run = 0;
  for (const Promise& promise : promises()) {
    SCOPED_TRACE(promise.command);
    if (promise.is_long()) continue;
    EXPECT_TRUE(std::regex_match(promise.takes, seconds))
        << "write how many seconds it takes, or `long: ` and the minutes; got " << promise.takes;
    ASSERT_TRUE(promise.command.find("build/release/tests/") != std::string::npos)
        << "commands that build or set up something take more than a minute; mark it as long";
    // Another build than the page's runs its own programs.
    const std::string own =
        std::regex_replace(promise.command, std::regex("build/release"), HOOKED_BINARY_DIR);
    std::smatch program;
    ASSERT_TRUE(std::regex_search(own, program, std::regex("[^ ]*/tests/[a-z_]+")));
    if (!std::filesystem::exists(program.str())) GTEST_SKIP() << program.str() << " is not built";
    // More than the minute that the page allows, since other tests run at the same time, on machines of any
    // speed. Results go to no file of this test's.
    const Finished finished = run_command("cd '" HOOKED_SOURCE_DIR
                                          "' && export OMP_WAIT_POLICY=passive && timeout 300 "
                                          "env -u GTEST_OUTPUT " +
                                          own);
    EXPECT_EQ(finished.status, 0) << finished.output;
    EXPECT_TRUE(std::regex_search(finished.output, some_passed)) << "no test ran\n" << finished.output;
    ++run;
  }
  EXPECT_GE(run, 8);
}

TEST(Reliability, TestsThatThePageNamesExist) {
  const std::regex quoted("`(tests/[^`]+)`");
  int named = 0;
  for (const Promise& promise : promises()) {
    for (std::sregex_iterator at(promise.tests.begin(), promise.tests.end(), quoted), end; at != end;
         ++at, ++named)
      EXPECT_TRUE(std::filesystem::exists(kRoot / (*at)[1].str())) << (*at)[1];
  }
  EXPECT_GE(named, 12);
}

// What is not imported cannot be called. LibTorch's libraries import some of these, and nothing of ours calls
// that.
TEST(Security, TheProgramImportsNothingThatConnectsOrRunsOthers) {
  const std::string engine = HOOKED_BINARY_DIR "/libexec/hooked/hooked-engine";
  if (!std::filesystem::exists(engine)) GTEST_SKIP() << "the program is not built";
  const Finished imports = run_command("nm -D --undefined-only '" + engine + "'");
  ASSERT_EQ(imports.status, 0) << imports.output;
  EXPECT_NE(imports.output.find(" open"), std::string::npos)
      << "it opens files, so that the list is not empty";
  const std::regex forbidden(
      R"( U (socket|connect|bind|getaddrinfo|gethostbyname|system|popen|fork|vfork|exec[a-z]*|posix_spawnp?)(@|$))",
      std::regex::multiline);
  std::smatch found;
  EXPECT_FALSE(std::regex_search(imports.output, found, forbidden)) << found.str();
}

}  // namespace
}  // namespace hooked::reliability_test
