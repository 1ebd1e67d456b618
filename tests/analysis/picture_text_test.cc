#include "analysis/picture_text.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "analysis/png_image.h"

namespace hooked::picture_text_test {
namespace {

TEST(PictureText, BlanksAreSeenWhereTheyCouldBeMissed) {
  EXPECT_EQ(visible_label("a"), "a");
  EXPECT_EQ(visible_label(" a"), "·a");
  EXPECT_EQ(visible_label("a "), "a·");
  EXPECT_EQ(visible_label("10 Mary"), "10 Mary");
  EXPECT_EQ(visible_label("10  Mary"), "10 ·Mary");
  EXPECT_EQ(visible_label(" "), "·");
  EXPECT_EQ(visible_label("a\n\tb\r"), "a↵→b␍");
  EXPECT_EQ(visible_label("日本 😀"), "日本 😀");
  EXPECT_EQ(visible_label(""), "");
}

TEST(PictureText, WidthsAreThoseOfTheFont) {
  EXPECT_NEAR(text_width("0.25", 10), (3 * 0.636 + 0.318) * 10, 0.2);  // DejaVu Sans
  EXPECT_GT(text_width("W", 10), text_width("i", 10));
  EXPECT_EQ(text_width("日本", 10), 20);
  EXPECT_EQ(text_width("e\u0301", 10), text_width("e", 10)) << "an accent takes no room";
  EXPECT_EQ(text_width("", 10), 0);
}

TEST(PictureText, TextBecomesXml) {
  EXPECT_EQ(xml_text("<a b=\"1\">&</a>"), "&lt;a b=&quot;1&quot;&gt;&amp;&lt;/a&gt;");
  EXPECT_EQ(xml_text("a\x01\nb"), "a  b");
  EXPECT_EQ(xml_text("\xFFx\xEF\xBF\xBF"), "\xEF\xBF\xBDx\xEF\xBF\xBD");
}

TEST(PictureText, LongTextIsCutBetweenWhatAReaderCounts) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdef", 4), "abc…");
  EXPECT_EQ(shortened("e\u0301e\u0301e\u0301", 2), "e\u0301…");
}

TEST(PictureText, NumbersAreShort) {
  EXPECT_EQ(readable_number(1.0 / 3), "0.3333");
  EXPECT_EQ(readable_number(-0.0), "0");
  EXPECT_EQ(readable_number(1e6), "1e+06");
  EXPECT_EQ(readable_number(-std::numeric_limits<double>::infinity()), "-∞");
  EXPECT_EQ(superscript(-120), "⁻¹²⁰");
}

TEST(PngImage, IsWhatAnotherEncoderWrites) {
  // Two rows of three places, by Python's struct and zlib (level 0).
  const std::array<std::uint8_t, 6> places = {0, 1, 2, 2, 1, 0};
  const std::array<Rgb, 3> palette = {{{255, 0, 0}, {0, 128, 255}, {0, 0, 0}}};
  EXPECT_EQ(png_data_address(places, 3, palette),
            "data:image/png;base64,"
            "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAMAAACqqpYoAAAACVBMVEX/AAAAgP8AAAClz1PoAAAAA3RSTlP//"
            "wDXyg1BAAAAE0lEQVR4AQEIAPf/AAABAgACAQAAIAAH6s58rAAAAABJRU5ErkJggg==");
}

}  // namespace
}  // namespace hooked::picture_text_test
