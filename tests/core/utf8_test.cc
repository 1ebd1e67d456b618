#include "core/utf8.h"

#include <gtest/gtest.h>

namespace hooked::utf8_test {
namespace {

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(first_invalid_byte(""), std::nullopt);
  EXPECT_EQ(first_invalid_byte("a\u00e9\U0010ffff"), std::nullopt);
  EXPECT_EQ(first_invalid_byte("ab\xC3"), 2U);
  EXPECT_EQ(first_invalid_byte("\xC0\x80"), 0U);
  EXPECT_EQ(first_invalid_byte("eight or more bytes, \xED\xA0\x80"), 21U);  // a surrogate
  EXPECT_EQ(first_invalid_byte("01234567\xF4\x90\x80\x80"), 8U);            // above U+10FFFF
}

TEST(Utf8, EveryCharacterIsReadAsItWasWritten) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    std::string text;
    append_utf8(text, c);
    const bool surrogate = c >= 0xD800 && c < 0xE000;
    ASSERT_EQ(utf8_length(text + "x"), surrogate ? 0 : text.size()) << static_cast<std::uint32_t>(c);
    if (text.size() > 1) {
      ASSERT_EQ(utf8_length(text.substr(0, text.size() - 1)), 0U);
    }
  }
}

}  // namespace
}  // namespace hooked::utf8_test
