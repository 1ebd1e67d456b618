#include "text/pipeline/normalizer.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/text/json_of.h"

namespace hooked::text::normalizer_test {
namespace {

std::string normalized(std::string_view json, std::string_view text) {
  NormalizedString whole(text, {0, text.size()});
  read_normalizer(json_of(json))->apply(whole);
  return std::string(whole.text());
}

// A table row that reads another row's normalizer shows here: each changes this text in its own way.
TEST(Normalizer, EachTypeIsWhatItsNameSays) {
  constexpr std::string_view kText = " \u00c9e\u0301\ufb01 \x07 ";
  EXPECT_EQ(normalized(R"({"type": "NFC"})", kText), " \u00c9\u00e9\ufb01 \x07 ");
  EXPECT_EQ(normalized(R"({"type": "NFD"})", kText), " E\u0301e\u0301\ufb01 \x07 ");
  EXPECT_EQ(normalized(R"({"type": "NFKC"})", kText), " \u00c9\u00e9fi \x07 ");
  EXPECT_EQ(normalized(R"({"type": "NFKD"})", kText), " E\u0301e\u0301fi \x07 ");
  EXPECT_EQ(normalized(R"({"type": "Lowercase"})", kText), " \u00e9e\u0301\ufb01 \x07 ");
  EXPECT_EQ(normalized(R"({"type": "StripAccents"})", kText), " \u00c9e\ufb01 \x07 ");
  EXPECT_EQ(normalized(R"({"type": "Nmt"})", kText), " \u00c9e\u0301\ufb01  ");
  EXPECT_EQ(normalized(R"({"type": "Strip", "strip_left": true, "strip_right": false})", kText),
            "\u00c9e\u0301\ufb01 \x07 ");
  EXPECT_EQ(normalized(R"({"type": "Prepend", "prepend": "_"})", kText), "_" + std::string(kText));
  EXPECT_EQ(normalized(R"({"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": "-"})", kText),
            "-\u00c9e\u0301\ufb01-\x07-");
  EXPECT_EQ(normalized(R"({"type": "ByteLevel"})", "a\u00e9 "), "a\u00c3\u00a9\u0120");
}

TEST(Normalizer, BertStripsAccentsWhereItLowersTheCase) {
  const auto bert = [](bool lowercase, std::string_view accents) {
    return R"({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": )" +
           std::string(accents) + R"(, "lowercase": )" + (lowercase ? "true}" : "false}");
  };
  constexpr std::string_view kText = "\u00c9\t\u4e2dx\x01";
  EXPECT_EQ(normalized(bert(true, "null"), kText), "e  \u4e2d x");
  EXPECT_EQ(normalized(bert(true, "false"), kText), "\u00e9  \u4e2d x");
  EXPECT_EQ(normalized(bert(false, "null"), kText), "\u00c9  \u4e2d x");
}

TEST(Normalizer, ASequenceAppliesItsStepsInOrder) {
  EXPECT_EQ(normalized(R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "A"},
                           {"type": "Lowercase"}, {"type": "Prepend", "prepend": "B"}]})",
                       "x"),
            "Bax");
}

}  // namespace
}  // namespace hooked::text::normalizer_test
