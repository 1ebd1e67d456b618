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

// Commands of less than a minute are tests, which the suite runs. Here the page's names of them are looked
// up.
TEST(Reliability, EveryCommandNamesTestsOrIsMarkedAsLong) {
  const std::regex seconds("[0-9]+ s"), pattern("[^:]+");
  const std::regex command(
      "build/release/tests/([a-z_]+)(?: --gtest_brief=1)?(?: --gtest_filter='([^']+)')?");
  int looked_up = 0;
  for (const Promise& promise : promises()) {
    SCOPED_TRACE(promise.command);
    if (promise.is_long()) continue;
    EXPECT_TRUE(std::regex_match(promise.takes, seconds))
        << "write how many seconds it takes, or `long: ` and the minutes; got " << promise.takes;
    std::smatch parts;
    ASSERT_TRUE(std::regex_match(promise.command, parts, command))
        << "commands that build or set up something take more than a minute; mark it as long";
    // Another build than the page's has its own programs.
    const std::string program = HOOKED_BINARY_DIR "/tests/" + parts.str(1);
    if (!std::filesystem::exists(program)) GTEST_SKIP() << program << " is not built";
    const std::string filter = parts[2].matched ? parts.str(2) : "*";
    for (std::sregex_iterator at(filter.begin(), filter.end(), pattern), end; at != end; ++at, ++looked_up) {
      const Finished listed = run_test_program(
          parts.str(1), "--gtest_list_tests --gtest_filter='" + at->str() + "'", "env -u GTEST_OUTPUT");
      EXPECT_EQ(listed.status, 0) << listed.output;
      EXPECT_NE(listed.output.find("\n  "), std::string::npos) << at->str() << " names no test\n"
                                                               << listed.output;
    }
  }
  EXPECT_GE(looked_up, 12);
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
