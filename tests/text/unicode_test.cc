#include "text/unicode/unicode.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/utf8.h"
#include "text/unicode/byte_characters.h"

namespace hooked::text::unicode_test {
namespace {

TEST(Unicode, BrokenCharactersAreReplacedByTheirLongestBeginning) {
  const auto replaced = [](std::string_view bytes) { return with_replacement_characters(bytes); };
  EXPECT_EQ(replaced("a\u00e9\U0001f600"), "a\u00e9\U0001f600");
  EXPECT_EQ(replaced("\xE2\x82"), "\ufffd");
  EXPECT_EQ(replaced("\xF0\x9F\x98z"), "\ufffdz");
  EXPECT_EQ(replaced("\x80\xBF"), "\ufffd\ufffd");
  EXPECT_EQ(replaced("\xED\xA0\x80"), "\ufffd\ufffd\ufffd");  // a surrogate begins no character
  EXPECT_EQ(replaced("\xF4\x90\xC0\xAF"), "\ufffd\ufffd\ufffd\ufffd");
}

TEST(Unicode, KnowsWhatThePackageKnows) {
  EXPECT_TRUE(is_number(U'\u00bd'));
  EXPECT_TRUE(is_number(0x10D40));          // Unicode 16
  EXPECT_TRUE(is_punctuation(U'$'));        // of ASCII, symbols too
  EXPECT_FALSE(is_punctuation(U'\u20ac'));  // a symbol
  EXPECT_FALSE(is_punctuation(0x061D));     // Unicode 14
  EXPECT_TRUE(is_mark(0x0301) && is_nonspacing_mark(0x0301));
  EXPECT_TRUE(is_mark(0x0903) && !is_nonspacing_mark(0x0903));
  EXPECT_TRUE(is_control_or_format(0x200B));
  EXPECT_EQ(lower_case(0x130), (std::vector<char32_t>{U'i', 0x307}));
  EXPECT_EQ(lower_case(0x1C89), (std::vector<char32_t>{0x1C8A}));
}

std::string written(std::string_view text, NormalizationForm form) {
  std::string result;
  for (const auto& change : normalized(text, form)) append_utf8(result, change.character);
  return result;
}

TEST(NormalizationForms, AreUnicodes) {
  EXPECT_EQ(written("\u1e69", NormalizationForm::nfd), "s\u0323\u0307");
  EXPECT_EQ(written("s\u0307\u0323", NormalizationForm::nfc), "\u1e69");
  EXPECT_EQ(written("\ufb01 \u2460", NormalizationForm::nfkc), "fi 1");
  EXPECT_EQ(written("\uac01", NormalizationForm::nfd), "\u1100\u1161\u11a8");
  EXPECT_EQ(written("\u1100\u1161\u11a8", NormalizationForm::nfc), "\uac01");
  EXPECT_EQ(written("\u0958", NormalizationForm::nfc), "\u0915\u093c");  // excluded from composition
}

TEST(NormalizationForms, SayWhatBecameOfEachCharacter) {
  const auto changes = normalized("s\u0307\u0323", NormalizationForm::nfc);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].change, -2);
}

TEST(ByteCharacters, AreOneToOne) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto character = byte_character(static_cast<std::uint8_t>(byte));
    EXPECT_EQ(character_byte(character), byte);
  }
  EXPECT_EQ(byte_character(' '), U'\u0120');
  EXPECT_EQ(spelled_bytes("\u0120\u00e2\u0124\u00ac"), " \xE2\x82\xAC");
  EXPECT_EQ(spelled_bytes("a b"), std::nullopt);
}

TEST(Graphemes, AreWhatReadersSee) {
  EXPECT_EQ(graphemes("e\u0301a\r\n\U0001f1e9\U0001f1ea\U0001f1eb"),
            (std::vector<std::string_view>{"e\u0301", "a", "\r\n", "\U0001f1e9\U0001f1ea", "\U0001f1eb"}));
  EXPECT_TRUE(graphemes("").empty());
}

}  // namespace
}  // namespace hooked::text::unicode_test
