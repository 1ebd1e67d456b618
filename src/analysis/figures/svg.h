#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hooked {

inline constexpr double kPictureMargin = 14;  ///< pixels around all that is drawn
inline constexpr double kPictureHeader = 50;  ///< pixels for title and unit and the space below them
inline constexpr double kPictureFont = 12;    ///< pixels, of ordinary text

/// The beginning of every picture, which says that hooked drew it.
inline constexpr std::string_view kPictureStart =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"hooked-picture ";

/// A style sheet's rules for a light page, and those that differ on a dark one. Every selector begins with
/// the picture's class, so that a picture embedded in a page does not change the page.
struct PictureRules {
  std::string light, dark;
};

/// The parts of a picture in addition to what all pictures have.
struct PicturePage {
  std::string css_class;  ///< `heat-map`
  std::string title, unit;
  PictureRules rules;
  std::string body;
  double right, bottom;  ///< how far the body reaches, in pixels
};

/// The whole SVG document: title and unit at the top, then the body, on a page that follows the reader's
/// light or dark scheme and is light on paper. Classes that every body can use: `middle` and `end` for texts'
/// anchors, `frame`, `panel-title`.
std::string picture_page(const PicturePage& page);

/// The start of an element that has a place and a size, without its end.
std::string svg_element(const char* name, double x, double y, double width, double height);

/// A text element; nothing for empty words. `more` are attributes that replace `x` and `y`.
std::string svg_text(double x, double y, std::string_view css_class, std::string_view words,
                     std::string_view more = "");

/// The width of `text` in pixels at a font size in pixels, for DejaVu Sans: no common sans-serif font is much
/// wider, so text that fits by this number fits.
double text_width(std::string_view text, double font_size);

/// The same in bold.
inline double bold_width(std::string_view text, double font_size) {
  return text_width(text, font_size) * 1.17;
}

/// `text` as content or attribute of an XML 1.0 document: escaped, with U+FFFD for bytes that are not UTF-8
/// and for characters that XML does not have, and spaces for control characters.
std::string xml_text(std::string_view text);

/// A label with visible whitespace: `·` for a space at either end or after another one, `↵` and `→` for a
/// line break and a tab, Unicode's pictures for other control characters. So ` a` differs from `a`.
std::string visible_label(std::string_view label);

/// `text`, valid UTF-8, cut to at most `characters` visible characters, with `…` for what is left out.
std::string shortened(std::string_view text, std::size_t characters);

/// A number for reading: four digits at most, `NaN`, `∞`.
std::string readable_number(double value, int digits = 4);

/// The digits of `exponent` as superscripts.
std::string superscript(int exponent);

}  // namespace hooked
