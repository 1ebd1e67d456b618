// Words for a shell are read back by bash as they were.
#include "core/shell_word.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "core/replaced.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"

namespace hooked::shell_word_test {
namespace {

TEST(ShellWord, BashReadsItBack) {
  const TempFolder folder;
  for (const char* shell : {"bash", "sh"}) {
    std::string script = "printf '%s\\n.\\n'", expected;
    for (const char* text :
         {"", "plain/word@v1.0:file", "two words", "it's", "'", "''a''", "\"quoted\"",
          "$HOME ${x} $(id) `id`", "back\\slash\\", "line\nbreak\ttab", "* ? [a] {b,c} ~ ! #",
          "a&b;c|d<e>(f)", "ünï – 日本", "-option", " lead and trail "}) {
      script += " " + shell_word(text) + " " + shell_quoted(text);
      for (int i = 0; i < 2; ++i) expected += std::string(text) + "\n.\n";
    }
    std::ofstream(folder / "script") << script << '\n';
    const auto finished = run_command(shell + (" '" + (folder / "script").string() + "'"));
    EXPECT_EQ(finished.status, 0);
    EXPECT_EQ(finished.output, expected) << shell;
  }
}

TEST(ShellWord, IsQuotedOnlyIfItHasToBe) {
  EXPECT_EQ(shell_word("org/name@v1.0:file"), "org/name@v1.0:file");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_quoted("it's"), R"('it'\''s')");
}

TEST(Replaced, CharactersBecomeTexts) {
  EXPECT_EQ(replaced("a<b&<", {{'<', "&lt;"}, {'&', "&amp;"}}), "a&lt;b&amp;&lt;");
  EXPECT_EQ(replaced("", {{'<', "&lt;"}}), "");
}

}  // namespace
}  // namespace hooked::shell_word_test
