#include "text/strings/pattern.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "hooked/core/error.h"

namespace hooked::text::pattern_test {
namespace {

using Spans = std::vector<TextSpan>;

Spans matches(std::string_view expression, std::string_view text) {
  Spans found;
  Regex(expression).for_each_match(text, [&](TextSpan span) { found.push_back(span); });
  return found;
}

TEST(Regex, FindsTheLeftmostMatchesInOrder) {
  EXPECT_EQ(matches("a+", "baa\u00e9a"), (Spans{{1, 3}, {5, 6}}));
  EXPECT_EQ(matches(R"(\p{L}+|\s+(?!\S)|\s+)", "a  b "), (Spans{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}}));
  EXPECT_TRUE(matches("a", "").empty());
}

TEST(Regex, AnEmptyMatchBehindAMatchIsNone) {
  EXPECT_EQ(matches("a*", "baac"), (Spans{{0, 0}, {1, 3}, {4, 4}}));
  EXPECT_EQ(matches("", "\u00e9a"), (Spans{{0, 0}, {2, 2}, {3, 3}}));
}

TEST(Regex, LooksBehindWithinTheText) { EXPECT_EQ(matches("(?<=a)b", "babb"), (Spans{{2, 3}})); }

// The long s is an s if case is ignored.
TEST(Regex, IgnoresCaseAsUnicodeDoes) {
  EXPECT_EQ(matches("(?i:'s)", "'\u017f 'S"), (Spans{{0, 3}, {4, 6}}));
}

TEST(Regex, WhatCannotBeCompiledIsRefused) {
  for (const auto* expression : {"(a", "[", "*", "\\p{Nothing}", "(?<n>a)(?<n"}) {
    EXPECT_THROW(Regex{expression}, std::invalid_argument) << expression;
  }
}

// An expression that backtracks without end.
TEST(Regex, BacktrackingWithoutEndIsAnError) {
  const Regex regex("(?:a|a)*b|(a+)+$");
  try {
    regex.for_each_match(std::string(40, 'a') + "c", [](TextSpan) {});
    FAIL();
  } catch (const TokenizerError& error) {
    EXPECT_EQ(error.where(), "(?:a|a)*b|(a+)+$");
    EXPECT_NE(std::string(error.what()).find("after byte 0"), std::string::npos) << error.what();
  }
}

TEST(Regex, ALongTextWithoutMatchIsNoBacktracking) {
  EXPECT_EQ(matches("\\d", std::string(25'000'000, 'x') + "1").size(), 1U);
}

}  // namespace
}  // namespace hooked::text::pattern_test
