#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hooked {

/// The width of `text` in pixels at a font size in pixels, for DejaVu Sans: no common sans-serif font is much
/// wider, so text that fits by this number fits.
double text_width(std::string_view text, double font_size);

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
