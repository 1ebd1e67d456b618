#include "analysis/figures/svg.h"

#include <libdeflate.h>

#include <array>

#include "analysis/figures/png_image.h"
#include "tests/support/test.h"

namespace hooked::svg_test {
namespace {

TEST(Svg, BlanksAreSeenWhereTheyCouldBeMissed) {
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

TEST(Svg, WidthsAreThoseOfTheFont) {
  EXPECT_NEAR(text_width("0.25", 10), (3 * 0.636 + 0.318) * 10, 0.2);  // DejaVu Sans
  EXPECT_GT(text_width("W", 10), text_width("i", 10));
  EXPECT_EQ(text_width("日本", 10), 20);
  EXPECT_EQ(text_width("e\u0301", 10), text_width("e", 10)) << "an accent takes no room";
  EXPECT_EQ(text_width("", 10), 0);
}

TEST(Svg, TextBecomesXml) {
  EXPECT_EQ(xml_text("<a b=\"1\">&</a>"), "&lt;a b=&quot;1&quot;&gt;&amp;&lt;/a&gt;");
  EXPECT_EQ(xml_text("a\x01\nb"), "a  b");
  EXPECT_EQ(xml_text("\xFFx\xEF\xBF\xBF"), "\xEF\xBF\xBDx\xEF\xBF\xBD");
}

TEST(Svg, LongTextIsCutBetweenWhatAReaderCounts) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdef", 4), "abc…");
  EXPECT_EQ(shortened("e\u0301e\u0301e\u0301", 2), "e\u0301…");
}

TEST(Svg, NumbersAreShort) {
  EXPECT_EQ(readable_number(1.0 / 3), "0.3333");
  EXPECT_EQ(readable_number(-0.0), "0");
  EXPECT_EQ(readable_number(1e6), "1e+06");
  EXPECT_EQ(readable_number(-std::numeric_limits<double>::infinity()), "-∞");
  EXPECT_EQ(superscript(-120), "⁻¹²⁰");
}

std::string from_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < text.size() && text[i] != '='; ++i) {
    bits = bits << 6 | static_cast<std::uint32_t>(kDigits.find(text[i]));
    if (i % 4 != 0) bytes += static_cast<char>(bits >> (6 - 2 * (i % 4)) & 0xFF);
  }
  return bytes;
}

// The rows of an image whose chunks before them take `begin` bytes, each after the byte of its filter.
std::string rows_of(std::string_view png, std::size_t begin, std::size_t bytes) {
  const auto end = png.find("IEND") - 8;
  const auto chunk = png.substr(begin + 4, end - begin - 4);
  EXPECT_TRUE(chunk.starts_with("IDAT"));
  EXPECT_EQ(static_cast<unsigned char>(png[begin + 3]), chunk.size() - 4);
  EXPECT_EQ(static_cast<unsigned char>(png[end + 3]), libdeflate_crc32(0, chunk.data(), chunk.size()) & 0xFF);
  std::string rows(bytes, 'x');
  auto* inflate = libdeflate_alloc_decompressor();
  EXPECT_EQ(
      libdeflate_zlib_decompress(inflate, chunk.data() + 4, chunk.size() - 4, rows.data(), bytes, nullptr),
      LIBDEFLATE_SUCCESS);
  libdeflate_free_decompressor(inflate);
  return rows;
}

TEST(PngImage, IsWhatAnotherEncoderWrites) {
  // Two rows of three places, by Python's struct and zlib; its compressed rows are its own.
  const std::array<std::uint8_t, 6> places = {0, 1, 2, 2, 1, 0};
  const std::array<Rgb, 3> palette = {{{255, 0, 0}, {0, 128, 255}, {0, 0, 0}}};
  const std::string address = png_data_address(places, 3, palette);
  const std::string_view begin =
      "data:image/png;base64,"
      "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAMAAACqqpYoAAAACVBMVEX/AAAAgP8AAAClz1PoAAAAA3RSTlP//wDXyg1B";
  EXPECT_EQ(address.substr(0, begin.size()), begin);
  EXPECT_TRUE(address.ends_with("AAAAAElFTkSuQmCC") || address.ends_with("AAAABJRU5ErkJggg==") ||
              address.ends_with("AAAASUVORK5CYII="));  // the last chunk, at each place in a group of four
  const auto png =
      from_base64(std::string_view(address).substr(std::string_view("data:image/png;base64,").size()));
  EXPECT_EQ(rows_of(png, 69, 8), std::string("\0\0\1\2\0\2\1\0", 8));
}

TEST(PngImage, PlainAreasTakeLittle) {
  const std::vector<std::uint8_t> places(256 * 256, 1);
  const std::array<Rgb, 2> palette = {};
  EXPECT_LT(png_data_address(places, 256, palette).size(), 1000U);
}

}  // namespace
}  // namespace hooked::svg_test
