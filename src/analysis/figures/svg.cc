#include "analysis/figures/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/utf8.h"
#include "text/unicode/unicode.h"

namespace hooked {
namespace {

// On paper the light colours apply.
constexpr const char* kLightRules = R"(.hooked-picture{color-scheme:light dark}
.hooked-picture text{fill:#222;font-size:12px}
.hooked-picture .page{fill:#fff}
.hooked-picture .title{font-size:15px;font-weight:600}
.hooked-picture .panel-title{font-weight:600}
.hooked-picture .unit{fill:#666;font-size:11px}
.hooked-picture .middle{text-anchor:middle}
.hooked-picture .end{text-anchor:end}
.hooked-picture .frame{fill:none;stroke:#999}
)";
constexpr const char* kDarkRules = R"(.hooked-picture text{fill:#e2e4e8}
.hooked-picture .page{fill:#14171a}
.hooked-picture .unit{fill:#a0a6ad}
.hooked-picture .frame{stroke:#666}
)";

// Advance widths of DejaVu Sans for the characters 0x20 to 0x7E, in hundredths of the font size.
constexpr std::array<unsigned char, 95> kAdvances = {
    32,  40, 46, 84, 64, 95, 78, 28, 39, 39, 50, 84, 32, 36, 32, 34,  //  !"#$%&'()*+,-./
    64,  64, 64, 64, 64, 64, 64, 64, 64, 64, 34, 34, 84, 84, 84, 53,  // 0 to ?
    100, 68, 69, 70, 77, 63, 58, 77, 75, 30, 30, 66, 56, 86, 75, 79,  // @ to O
    60,  79, 69, 64, 61, 73, 68, 99, 69, 61, 69, 39, 34, 39, 84, 50,  // P to _
    50,  61, 63, 55, 63, 62, 35, 63, 63, 28, 28, 58, 28, 97, 63, 61,  // ` to o
    63,  63, 41, 52, 39, 63, 59, 82, 59, 59, 53, 64, 34, 64, 84};     // p to ~

/// Characters that are as wide as they are high: East Asian scripts and their punctuation, and emoji.
bool is_wide(char32_t c) {
  return (c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0xA4CF) || (c >= 0xAC00 && c <= 0xD7A3) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0xFE30 && c <= 0xFE6F) || (c >= 0xFF00 && c <= 0xFF60) ||
         (c >= 0x1F000 && c <= 0x1FAFF) || (c >= 0x20000 && c <= 0x3FFFD);
}

double advance(char32_t c) {
  if (c >= 0x20 && c <= 0x7E) return kAdvances[c - 0x20] / 100.0;
  if (text::is_mark(c) || text::is_control_or_format(c)) return 0;
  return is_wide(c) ? (c >= 0x1F000 && c <= 0x1FAFF ? 1.25 : 1.0) : 0.7;
}

}  // namespace

std::string svg_element(const char* name, double x, double y, double width, double height) {
  return fmt::format("<{} x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"{:g}\"", name, x, y, width, height);
}

std::string svg_text(double x, double y, std::string_view css_class, std::string_view words,
                     std::string_view more) {
  if (words.empty()) return "";
  return (more.empty() ? fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">", css_class, x, y)
                       : fmt::format("<text class=\"{}\"{}>", css_class, more)) +
         xml_text(words) + "</text>\n";
}

std::string picture_page(const PicturePage& page) {
  const double width =
      std::max({page.right, bold_width(page.title, 15), text_width(page.unit, 11) + kPictureMargin}) +
      kPictureMargin;
  return fmt::format(
      "{11}{0}\" role=\"img\" "
      "width=\"{1:.0f}\" height=\"{2:.0f}\" viewBox=\"0 0 {1:.0f} {2:.0f}\" font-family=\"Helvetica, Arial, "
      "'DejaVu Sans', sans-serif\">\n<title>{3}</title>\n<style>\n{4}{5}@media screen and "
      "(prefers-color-scheme:dark){{\n{6}{7}}}\n</style>\n"
      "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n{8}{9}{10}</svg>\n",
      page.css_class, width, page.bottom + kPictureMargin, xml_text(page.title), kLightRules,
      page.rules.light, kDarkRules, page.rules.dark, svg_text(kPictureMargin, 22, "title", page.title),
      svg_text(kPictureMargin, 39, "unit", page.unit), page.body, kPictureStart);
}

double text_width(std::string_view text, double font_size) {
  double width = 0;
  text::for_each_character(text, [&](char32_t c, std::string_view) { width += advance(c); });
  return width * font_size;
}

std::string xml_text(std::string_view text) {
  std::string out;
  text::for_each_character(text::with_replacement_characters(text), [&](char32_t c, std::string_view bytes) {
    if (c == U'<') {
      out += "&lt;";
    } else if (c == U'>') {
      out += "&gt;";
    } else if (c == U'&') {
      out += "&amp;";
    } else if (c == U'"') {
      out += "&quot;";
    } else if (c == 0xFFFE || c == 0xFFFF) {
      out += "\xEF\xBF\xBD";
    } else if (c < 0x20) {
      out += ' ';
    } else {
      out += bytes;
    }
  });
  return out;
}

std::string visible_label(std::string_view label) {
  const std::string valid = text::with_replacement_characters(label);
  std::string out;
  bool after_blank = true;  // as at the beginning
  std::size_t left = valid.size();
  text::for_each_character(valid, [&](char32_t c, std::string_view bytes) {
    left -= bytes.size();
    if (c == U' ') {
      out += after_blank || left == 0 ? "·" : " ";
    } else if (c == U'\n') {
      out += "↵";
    } else if (c == U'\t') {
      out += "→";
    } else if (c < 0x20 || c == 0x7F) {
      append_utf8(out, c == 0x7F ? U'\u2421' : static_cast<char32_t>(0x2400 + c));
    } else {
      out += bytes;
    }
    after_blank = c == U' ';
  });
  return out;
}

std::string shortened(std::string_view text, std::size_t characters) {
  const auto seen = text::graphemes(text);
  if (seen.size() <= characters) return std::string(text);
  std::string out;
  for (std::size_t i = 0; i + 1 < characters; ++i) out += seen[i];
  return out + "…";
}

std::string readable_number(double value, int digits) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "∞" : "-∞";
  return value == 0 ? "0" : fmt::format("{:.{}g}", value, digits);
}

std::string superscript(int exponent) {
  constexpr std::array<const char*, 10> kDigits = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string out;
  for (const char c : std::to_string(exponent)) {
    out += c == '-' ? "⁻" : kDigits[static_cast<std::size_t>(c - '0')];
  }
  return out;
}

}  // namespace hooked
