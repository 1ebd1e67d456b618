#include "text/model/added_tokens.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hooked::text::added_tokens_test {
namespace {

struct Found {
  std::size_t begin;
  std::size_t end;
  std::int64_t id;
  bool operator==(const Found&) const = default;
};

std::vector<Found> split(const std::vector<AddedToken>& tokens, std::string_view text,
                         AddedTokens::Stage stage = AddedTokens::Stage::original) {
  const AddedTokens added(tokens, [](std::string_view content) { return "_" + std::string(content); });
  std::vector<Found> found;
  for (const auto& part : added.split(text, stage, AddedTokensInText::as_tokens)) {
    found.push_back({part.span.begin, part.span.end, part.id});
  }
  return found;
}

TEST(AddedTokens, StripTheWhiteSpaceBesideThem) {
  EXPECT_EQ(split({{.id = 1, .content = "<m>", .lstrip = true}}, "a \u3000<m> b"),
            (std::vector<Found>{{0, 1, -1}, {1, 8, 1}, {8, 10, -1}}));
  EXPECT_EQ(split({{.id = 1, .content = "<m>", .rstrip = true}}, "a <m> \nb"),
            (std::vector<Found>{{0, 2, -1}, {2, 7, 1}, {7, 8, -1}}));
  // White space between two tokens is taken only once.
  EXPECT_EQ(split({{.id = 1, .content = "<m>", .lstrip = true, .rstrip = true}}, "<m> <m>"),
            (std::vector<Found>{{0, 4, 1}, {4, 7, 1}}));
}

// The results of the package tokenizers 0.23 for these texts; if it panics, the token is dropped as well.
TEST(AddedTokens, AreDroppedWhereTheOneBeforeTookAllOfThem) {
  const std::vector<AddedToken> tokens = {{.id = 1, .content = "<a>", .rstrip = true},
                                          {.id = 2, .content = "\n", .lstrip = true}};
  EXPECT_EQ(split(tokens, "<a> \nx"), (std::vector<Found>{{0, 5, 1}, {5, 6, -1}}));
  EXPECT_EQ(split(tokens, "<a>\n"), (std::vector<Found>{{0, 4, 1}}));
  EXPECT_EQ(split(tokens, "<a> \n \nx"), (std::vector<Found>{{0, 7, 1}, {7, 8, -1}}));
  EXPECT_EQ(split(tokens, "x \n"), (std::vector<Found>{{0, 1, -1}, {1, 3, 2}}));
  // A token that takes the white space on both sides takes those of its own kind that follow.
  const std::vector<AddedToken> blank = {{.id = 3, .content = " ", .lstrip = true, .rstrip = true}};
  EXPECT_EQ(split(blank, "a   b"), (std::vector<Found>{{0, 1, -1}, {1, 4, 3}, {4, 5, -1}}));
  // Without lstrip the token is found again.
  EXPECT_EQ(split({{.id = 1, .content = "<a>", .rstrip = true}, {.id = 2, .content = "\n"}}, "<a> \nx"),
            (std::vector<Found>{{0, 5, 1}, {4, 5, 2}, {5, 6, -1}}));
}

TEST(AddedTokens, OfWhichTheNormalizerLeavesNothingAreFoundNowhere) {
  const AddedTokens added({{.id = 1, .content = "xx", .normalized = true}},
                          [](std::string_view) { return std::string(); });
  EXPECT_EQ(added.never_found(), std::vector<std::string>{"xx"});
  EXPECT_EQ(added.split("axxb", AddedTokens::Stage::normalized, AddedTokensInText::as_tokens).size(), 1u);
}

TEST(AddedTokens, SingleWordsAreNotInsideWords) {
  const std::vector<AddedToken> tokens = {{.id = 1, .content = "dog", .single_word = true}};
  EXPECT_EQ(split(tokens, "dog, hotdog dogs \u00e9dog"), (std::vector<Found>{{0, 3, 1}, {3, 22, -1}}));
}

TEST(AddedTokens, NormalizedOnesAreFoundAsNormalized) {
  const std::vector<AddedToken> tokens = {{.id = 1, .content = "a", .normalized = true},
                                          {.id = 2, .content = "b"}};
  EXPECT_EQ(split(tokens, "_aab"), (std::vector<Found>{{0, 3, -1}, {3, 4, 2}}));
  EXPECT_EQ(split(tokens, "_aab", AddedTokens::Stage::normalized),
            (std::vector<Found>{{0, 2, 1}, {2, 4, -1}}));
  const AddedTokens added(tokens, [](std::string_view content) { return "_" + std::string(content); });
  EXPECT_EQ(added.decoded(1), "_a");
  EXPECT_EQ(added.decoded(2), "b");
}

}  // namespace
}  // namespace hooked::text::added_tokens_test
