#include "engine/generated_text.h"

#include <fmt/format.h>

#include "tests/support/test.h"

namespace hooked::generated_text_test {
namespace {

// One token per letter: `a` is 0, `b` is 1 and so on.
Tokenizer letters() {
  std::string vocab;
  for (int i = 0; i < 26; ++i) {
    vocab += fmt::format("{}\"{}\": {}", i == 0 ? "" : ", ", static_cast<char>('a' + i), i);
  }
  return Tokenizer::parse(fmt::format(
      R"({{"version": "1.0", "model": {{"type": "BPE", "vocab": {{{}}}, "merges": []}}, "decoder": {{"type": "Fuse"}}}})",
      vocab));
}

class Text : public testing::Test {
 protected:
  // The text that each letter makes certain, then the rest at the end.
  std::vector<std::string> pieces(const std::string& word, const std::vector<std::string>& stops) {
    GeneratedText text(letters(), {}, stops);
    std::vector<std::string> said;
    for (const char c : word) said.push_back(text.add(c - 'a'));
    said.push_back(text.finish());
    stopped_ = text.stopped();
    whole_ = text.text();
    return said;
  }
  bool stopped_ = false;
  std::string whole_;
};

using Pieces = std::vector<std::string>;

TEST_F(Text, IsHandedOutAtOnceWithoutStopStrings) {
  EXPECT_EQ(pieces("abc", {}), (Pieces{"a", "b", "c", ""}));
  EXPECT_FALSE(stopped_);
  EXPECT_EQ(whole_, "abc");
}

TEST_F(Text, EndsBeforeAStopString) {
  EXPECT_EQ(pieces("abstop", {"stop"}), (Pieces{"a", "b", "", "", "", "", ""}));
  EXPECT_TRUE(stopped_);
  EXPECT_EQ(whole_, "ab");
}

TEST_F(Text, ThatOnlyBeganLikeAStopStringIsHandedOut) {
  EXPECT_EQ(pieces("stsx", {"stop"}), (Pieces{"", "", "st", "sx", ""}));
  EXPECT_FALSE(stopped_);
  EXPECT_EQ(pieces("ast", {"stop"}), (Pieces{"a", "", "", "st"}));
  EXPECT_EQ(whole_, "ast");
}

TEST_F(Text, EndsAtTheFirstOfSeveralStopStrings) {
  pieces("abxyz", {"yz", "xy", "q"});
  EXPECT_TRUE(stopped_);
  EXPECT_EQ(whole_, "ab");
  EXPECT_EQ(pieces("ab", {"b"}), (Pieces{"a", "", ""}));
}

}  // namespace
}  // namespace hooked::generated_text_test
