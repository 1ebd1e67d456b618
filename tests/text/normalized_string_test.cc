#include "text/strings/normalized_string.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hooked::text::normalized_string_test {
namespace {

// "é" is bytes 1 and 2.
constexpr std::string_view kText = "a\u00e9b";

TEST(NormalizedString, AnUnchangedTextIsItself) {
  const NormalizedString text(kText, {1, 4});
  EXPECT_EQ(text.text(), "\u00e9b");
  EXPECT_EQ(text.origin({0, 1}), (TextSpan{1, 3}));  // a part of a character comes from all of it
  EXPECT_EQ(text.origin({1, 3}), (TextSpan{1, 4}));
}

TEST(NormalizedString, AChangeKeepsWhereItsPartsCameFrom) {
  NormalizedString text(kText, {0, 4});
  const std::vector<Change> decomposed = {{U'a', 0}, {U'e', 0}, {0x301, 1}, {U'b', 0}};
  text.transform(decomposed);
  EXPECT_EQ(text.text(), "ae\u0301b");
  EXPECT_EQ(text.origin({1, 2}), (TextSpan{1, 3}));
  EXPECT_EQ(text.origin({2, 4}), (TextSpan{1, 3}));
  EXPECT_EQ(text.origin({4, 5}), (TextSpan{3, 4}));
  const std::vector<Change> composed = {{U'a', 0}, {0xE9, -1}, {U'b', 0}};
  text.transform(composed);
  EXPECT_EQ(text.text(), kText);
  EXPECT_EQ(text.origin({3, 4}), (TextSpan{3, 4}));
}

TEST(NormalizedString, RemovedCharactersBelongToNothing) {
  NormalizedString text(kText, {0, 4});
  const std::vector<Change> kept = {{U'b', 0}};
  text.transform(kept, 2);
  EXPECT_EQ(text.text(), "b");
  EXPECT_EQ(text.origin({0, 1}), (TextSpan{3, 4}));
}

TEST(NormalizedString, ReplacesAndPrepends) {
  NormalizedString text("a  b", {0, 4});
  text.replace(std::vector<Match>{{{0, 1}, false}, {{1, 3}, true}, {{3, 4}, false}}, "\u2581");
  EXPECT_EQ(text.text(), "a\u2581b");
  EXPECT_EQ(text.origin({1, 4}), (TextSpan{2, 3}));  // of the last of the blanks
  text.prepend("_");
  EXPECT_EQ(text.text(), "_a\u2581b");
  EXPECT_EQ(text.origin({0, 1}), (TextSpan{0, 1}));
  NormalizedString nothing("", {0, 0});
  nothing.prepend("_");
  EXPECT_EQ(nothing.text(), "");
}

TEST(NormalizedString, PartsArePutTogether) {
  const NormalizedString part(kText, {1, 4});
  auto whole = NormalizedString::empty(kText, 8);
  whole.append("*", {1, 3});
  whole.append(part, {0, 3});
  EXPECT_EQ(whole.text(), "*\u00e9b");
  EXPECT_EQ(whole.origin({0, 1}), (TextSpan{1, 3}));
  EXPECT_EQ(whole.origin({1, 3}), (TextSpan{1, 3}));
  EXPECT_EQ(whole.origin({3, 4}), (TextSpan{3, 4}));
}

}  // namespace
}  // namespace hooked::text::normalized_string_test
