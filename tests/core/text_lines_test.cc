#include "core/text_lines.h"

#include "tests/support/test.h"

namespace hooked {
namespace {

using Lines = std::vector<std::string>;

TEST(TextOfBytes, LosesWhatEditorsAdd) {
  EXPECT_EQ(text_of_bytes("\xEF\xBB\xBF"
                          "a\r\nb\r\n",
                          "f"),
            "a\nb\n");
  EXPECT_EQ(text_of_bytes("a\rb \xC3\xA9", "f"), "a\rb \xC3\xA9") << "a carriage return alone is text";
  EXPECT_EQ(text_of_bytes("a\xEF\xBB\xBF", "f"), "a\xEF\xBB\xBF") << "a mark elsewhere is text";
}

TEST(TextOfBytes, NamesTheLineOfWhatIsNoText) {
  EXPECT_EQ(text_thrown_by<CheckpointError>([] { text_of_bytes("ab\ncd\xFF", "prompts.txt"); }),
            "[prompts.txt] line 2: byte 2 of the line is not UTF-8; expected a text in UTF-8; convert the "
            "file, for "
            "instance with iconv");
}

TEST(LinesOfBytes, AreTheSameFromEverySystem) {
  const Lines plain = {"one", "", "two"};
  EXPECT_EQ(lines_of_bytes("one\n\ntwo", "f"), plain);
  EXPECT_EQ(lines_of_bytes("one\n\ntwo\n", "f"), plain);
  EXPECT_EQ(lines_of_bytes("one\n\ntwo\n\n \n", "f"), plain);
  EXPECT_EQ(lines_of_bytes("\xEF\xBB\xBFone\r\n\r\ntwo\r\n\r\n", "f"), plain);
  EXPECT_EQ(lines_of_bytes("", "f"), Lines());
  EXPECT_EQ(lines_of_bytes("\r\n\n", "f"), Lines());
  EXPECT_EQ(lines_of_bytes("ends with blanks  \n", "f"), Lines{"ends with blanks  "});
}

}  // namespace
}  // namespace hooked
