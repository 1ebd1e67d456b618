#include "text/pipeline/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/text/json_of.h"

namespace hooked::text::pre_tokenizer_test {
namespace {

using Words = std::vector<std::string>;

Words words(std::string_view json, std::string_view text) {
  PreTokenized cut({text, {0, text.size()}}, {{{0, text.size()}}});
  for (const auto& step : read_pre_tokenizer(json_of(json))) step->apply(cut);
  Words found;
  for (const auto& piece : cut.pieces()) found.emplace_back(cut.text_of(piece));
  return found;
}

// A table row that reads another row's pre-tokenizer shows here: each splits this text in its own way.
TEST(PreTokenizer, EachTypeIsWhatItsNameSays) {
  constexpr std::string_view kText = "ab c-12  x";
  EXPECT_EQ(words(R"({"type": "ByteLevel", "add_prefix_space": true})", kText),
            (Words{"\u0120ab", "\u0120c", "-", "12", "\u0120", "\u0120x"}));
  EXPECT_EQ(words(R"({"type": "Digits", "individual_digits": true})", kText),
            (Words{"ab c-", "1", "2", "  x"}));
  EXPECT_EQ(words(R"({"type": "Digits", "individual_digits": false})", kText), (Words{"ab c-", "12", "  x"}));
  EXPECT_EQ(words(R"({"type": "Whitespace"})", kText), (Words{"ab", "c", "-", "12", "x"}));
  EXPECT_EQ(words(R"({"type": "WhitespaceSplit"})", kText), (Words{"ab", "c-12", "x"}));
  EXPECT_EQ(words(R"({"type": "Punctuation"})", kText), (Words{"ab c", "-", "12  x"}));
  EXPECT_EQ(words(R"({"type": "Punctuation", "behavior": "Removed"})", kText), (Words{"ab c", "12  x"}));
  EXPECT_EQ(words(R"({"type": "Metaspace", "replacement": "_"})", kText), (Words{"_ab", "_c-12", "_", "_x"}));
  EXPECT_EQ(
      words(R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "never", "split": false})", kText),
      (Words{"ab_c-12__x"}));
  EXPECT_EQ(words(R"({"type": "BertPreTokenizer"})", kText), (Words{"ab", "c", "-", "12", "x"}));
  EXPECT_EQ(words(R"({"type": "FixedLength", "length": 4})", kText), (Words{"ab c", "-12 ", " x"}));
  EXPECT_EQ(words(R"({"type": "CharDelimiterSplit", "delimiter": "-"})", kText), (Words{"ab c", "12  x"}));
}

TEST(PreTokenizer, SplitDoesWithDelimitersWhatItsBehaviorSays) {
  const auto split = [](std::string_view behavior) {
    return words(R"({"type": "Split", "pattern": {"String": "-"}, "invert": false, "behavior": ")" +
                     std::string(behavior) + "\"}",
                 "a--b");
  };
  EXPECT_EQ(split("Removed"), (Words{"a", "b"}));
  EXPECT_EQ(split("Isolated"), (Words{"a", "-", "-", "b"}));
  EXPECT_EQ(split("MergedWithPrevious"), (Words{"a-", "-", "b"}));
  EXPECT_EQ(split("MergedWithNext"), (Words{"a", "-", "-b"}));
  EXPECT_EQ(split("Contiguous"), (Words{"a", "--", "b"}));
  EXPECT_EQ(words(R"({"type": "Split", "pattern": {"Regex": "\\w"}, "invert": true, "behavior": "Removed"})",
                  "a--b"),
            (Words{"a", "b"}));
}

TEST(PreTokenizer, ASequenceIsTheStepsOfItsMembers) {
  constexpr auto* kJson = R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
                              {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";
  EXPECT_EQ(words(kJson, "a \u00e9"), (Words{"a", "\u00c3\u00a9"}));
  EXPECT_TRUE(read_pre_tokenizer(json_of(kJson)).back()->only_spells_bytes());
}

}  // namespace
}  // namespace hooked::text::pre_tokenizer_test
