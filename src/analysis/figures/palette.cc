#include "analysis/figures/palette.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "analysis/figures/axis.h"
#include "core/nearest.h"
#include "hooked/core/error.h"

namespace hooked {

/// Colours from the low end to the high one, 0xRRGGBB at equal distances. On a dark page the colours of weak
/// values are dark, so that strong values stand out.
struct NamedPalette {
  std::string name;
  bool diverging;
  std::vector<std::uint32_t> light, dark;
};

namespace {

constexpr const char* kHeatMap = "heat map";

// Blues, Greys, RdBu and PRGn after Brewer 2003 (colorbrewer2.org), viridis after Smith and van der Walt 2015
// (matplotlib): all are readable for the common kinds of colour blindness. The low end of Blues and Greys is
// not quite the page's colour, so that a cell of 0 differs from a blank one.
const std::vector<NamedPalette>& palettes() {
  static const std::vector<std::uint32_t> kViridis = {0x440154, 0x482576, 0x414487, 0x35608D,
                                                      0x2A788E, 0x21918C, 0x22A884, 0x44BF70,
                                                      0x7AD151, 0xBDDF26, 0xFDE725};
  static const std::vector<NamedPalette> kPalettes = {
      {"Blues",
       false,
       {0xF0F6FD, 0xDEEBF7, 0xC6DBEF, 0x9ECAE1, 0x6BAED6, 0x4292C6, 0x2171B5, 0x08519C, 0x08306B},
       {0x1E2732, 0x1F3A57, 0x205080, 0x2C6CAA, 0x4189C9, 0x66A8DE, 0x93C6EE, 0xBBDDF7, 0xE0F0FC}},
      {"Greys",
       false,
       {0xF4F4F4, 0xE4E4E4, 0xD0D0D0, 0xB4B4B4, 0x929292, 0x6E6E6E, 0x4C4C4C, 0x2C2C2C, 0x0A0A0A},
       {0x262626, 0x383838, 0x4E4E4E, 0x686868, 0x868686, 0xA6A6A6, 0xC6C6C6, 0xE2E2E2, 0xFAFAFA}},
      {"viridis", false, kViridis, kViridis},
      {"RdBu",
       true,
       {0x67001F, 0xB2182B, 0xD6604D, 0xF4A582, 0xFDDBC7, 0xFFFFFF, 0xD1E5F0, 0x92C5DE, 0x4393C3, 0x2166AC,
        0x053061},
       {0xFFD3C2, 0xF79B7C, 0xDB5B49, 0xA62B35, 0x5A1F27, 0x1E1F22, 0x18354F, 0x20588B, 0x3E8AC4, 0x86BFE2,
        0xD3EAF8}},
      {"PRGn",
       true,
       {0x40004B, 0x762A83, 0x9970AB, 0xC2A5CF, 0xE7D4E8, 0xFFFFFF, 0xD9F0D3, 0xA6DBA0, 0x5AAE61, 0x1B7837,
        0x00441B},
       {0xEBD6F2, 0xC99FD8, 0xA16DB8, 0x733D8C, 0x41244D, 0x1E1F22, 0x1A3B23, 0x27703C, 0x48A457, 0x8FD08F,
        0xD6F3D2}}};
  return kPalettes;
}

struct SpecialPaint {
  const char* css_class;
  std::uint32_t colour;
};

// By Paint::Special. No palette comes near these hues.
constexpr std::array<SpecialPaint, 6> kSpecial = {{{"above", 0xFF9D1E},
                                                   {"below", 0xF0389A},
                                                   {"infinity", 0x9A5200},
                                                   {"minus-infinity", 0x8A0A5A},
                                                   {"NaN", 0x8C8C8C},
                                                   {"blank", 0x000000}}};

Rgb rgb(std::uint32_t colour) {
  return {static_cast<std::uint8_t>(colour >> 16), static_cast<std::uint8_t>(colour >> 8 & 0xFF),
          static_cast<std::uint8_t>(colour & 0xFF)};
}

Rgb colour_at(const std::vector<std::uint32_t>& palette, double share) {
  const double place = share * static_cast<double>(palette.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(place), palette.size() - 2);
  const double t = place - static_cast<double>(below);
  const Rgb a = rgb(palette[below]), b = rgb(palette[below + 1]);
  Rgb mixed;
  for (std::size_t i = 0; i < 3; ++i)
    mixed[i] = static_cast<std::uint8_t>(std::lround(a[i] + t * (b[i] - a[i])));
  return mixed;
}

/// Relative luminance (WCAG 2.2).
double luminance(const Rgb& c) {
  const auto linear = [](std::uint8_t part) {
    const double share = part / 255.0;
    return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
}

/// Dark or white, whichever has the greater contrast with `c`.
const char* ink_on(const Rgb& c) {
  constexpr Rgb kDarkInk = {0x22, 0x22, 0x22};
  const double own = luminance(c) + 0.05;
  return own / (luminance(kDarkInk) + 0.05) > 1.05 / own ? "#222" : "#fff";
}

const NamedPalette& palette_named(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& palette : palettes()) {
    if (palette.name == name) return palette;
    names.push_back(palette.name);
  }
  throw ConfigError(
      kHeatMap, fmt::format("unknown palette; expected one of {}, got '{}'{}", fmt::join(names, ", "), name,
                            nearest_text("; did you mean {}?", name, names)));
}

// Up to six lines: after Okabe and Ito 2008, readable for the common kinds of colour blindness, darker on a
// light page and lighter on a dark one.
constexpr std::array<Rgb, 6> kLightLines = {{{0x00, 0x68, 0xA8},
                                             {0xC8, 0x4E, 0x00},
                                             {0x00, 0x85, 0x60},
                                             {0xA8, 0x3C, 0x7C},
                                             {0x8A, 0x6A, 0x00},
                                             {0x50, 0x50, 0x50}}};
constexpr std::array<Rgb, 6> kDarkLines = {{{0x5A, 0xB4, 0xF0},
                                            {0xFF, 0x92, 0x50},
                                            {0x3C, 0xC9, 0x9A},
                                            {0xF0, 0x90, 0xC8},
                                            {0xE0, 0xC0, 0x40},
                                            {0xC8, 0xC8, 0xC8}}};

}  // namespace

std::string css_colour(const Rgb& colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour[0], colour[1], colour[2]);
}

ColourScale::ColourScale(const at::Tensor& values, const at::Tensor& blank, const HeatMapOptions& options) {
  require_limits(kHeatMap, options.low, options.high);
  require_finite(kHeatMap, "centre", options.centre);
  NumberRange range;
  const auto* numbers = values.const_data_ptr<double>();
  const auto* blanks = blank.const_data_ptr<bool>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    if (!blanks[i] && std::isfinite(numbers[i])) range.add(numbers[i]);
  }
  const bool around_zero = options.low.value_or(range.lowest) < 0 && options.high.value_or(0) >= 0;
  if (range.empty()) range.add(options.centre.value_or(0));
  palette_ = &palette_named(!options.palette.empty()        ? options.palette
                            : options.centre || around_zero ? "RdBu"
                                                            : "Blues");
  diverging_ = palette_->diverging;
  if (diverging_) {
    set_diverging(options, range);
  } else {
    set_sequential(options, range);
  }
}

void ColourScale::set_sequential(const HeatMapOptions& options, const NumberRange& range) {
  if (options.centre) {
    throw ConfigError(kHeatMap,
                      fmt::format("the palette {} has no colour for a centre; expected RdBu or PRGn "
                                  "with a centre, got {} with centre {}; leave out one of them",
                                  palette_->name, palette_->name, *options.centre));
  }
  low_ = options.low.value_or(std::min(0.0, range.lowest));
  high_ = options.high.value_or(range.highest);
  if (low_ < high_) return;
  if (options.high) {
    low_ = high_ - 1;
  } else {
    high_ = low_ + 1;
  }
}

void ColourScale::set_diverging(const HeatMapOptions& options, const NumberRange& range) {
  centre_ = options.centre.value_or(0);
  low_ = options.low.value_or(std::min(range.lowest, centre_));
  high_ = options.high.value_or(std::max(range.highest, centre_));
  if (low_ == high_) {
    if (!options.low) low_ -= 1;
    if (!options.high) high_ += 1;
  }
  if (low_ <= centre_ && centre_ <= high_) return;
  throw ConfigError(kHeatMap,
                    fmt::format("the centre lies outside the limits; expected a centre from {} to "
                                "{}, got {}{}; move the limits, or take a palette without a centre",
                                low_, high_, centre_, options.centre ? "" : ", which is the default"));
}

Paint ColourScale::paint(double value) const {
  if (std::isnan(value)) return {Paint::nan};
  if (std::isinf(value)) return {value > 0 ? Paint::infinity : Paint::minus_infinity};
  // Halves, because the distance of two numbers may be infinite. Values that exceed a limit only by float32's
  // rounding, as probabilities and cosines do, do not count as beyond it.
  const double rounding = 1e-6 * (high_ / 2 - low_ / 2);
  if (value / 2 > high_ / 2 + rounding) return {Paint::above};
  if (value / 2 < low_ / 2 - rounding) return {Paint::below};
  double share = 0;
  if (diverging_) {  // equal colours mean equal distances from the centre
    const double reach = std::max(high_ / 2 - centre_ / 2, centre_ / 2 - low_ / 2);
    share = ((value / 2 - centre_ / 2) / reach + 1) / 2;
  } else {
    share = (value / 2 - low_ / 2) / (high_ / 2 - low_ / 2);
  }
  if (!(share >= 0)) share = 0;  // also if the limits are too close for their distance to be a number
  return {static_cast<std::uint8_t>(std::lround(std::min(share, 1.0) * (Paint::kLevels - 1)))};
}

std::string ColourScale::css_class(Paint paint) const {
  if (paint.is_level()) return fmt::format("{}-{}", palette_->name, paint.code);
  return kSpecial[static_cast<std::size_t>(paint.code - Paint::kLevels)].css_class;
}

Rgb ColourScale::colour(Paint paint, bool dark) const {
  if (!paint.is_level()) return rgb(kSpecial[static_cast<std::size_t>(paint.code - Paint::kLevels)].colour);
  return colour_at(dark ? palette_->dark : palette_->light, paint.code / (Paint::kLevels - 1.0));
}

std::string ColourScale::css_rule(Paint paint, bool dark) const {
  const Rgb fill = colour(paint, dark);
  return fmt::format(".heat-map .{}{{fill:{};color:{}}}\n", css_class(paint), css_colour(fill), ink_on(fill));
}

std::vector<Rgb> ColourScale::colours(bool dark) const {
  std::vector<Rgb> all;
  for (int code = 0; code <= Paint::blank; ++code)
    all.push_back(colour({static_cast<std::uint8_t>(code)}, dark));
  return all;
}

std::vector<Rgb> line_colours(std::int64_t count, bool dark) {
  const auto& own = dark ? kDarkLines : kLightLines;
  if (count <= static_cast<std::int64_t>(own.size())) return {own.begin(), own.begin() + count};
  const auto& viridis = palette_named("viridis");
  // The end that is close to the page's colour is left out.
  const double first = dark ? 28 : 0, last = dark ? 100 : 82;
  std::vector<Rgb> colours;
  for (std::int64_t i = 0; i < count; ++i) {
    const double t = static_cast<double>(i) / static_cast<double>(count - 1);
    const double level = std::round(first * (1 - t) + last * t);
    colours.push_back(colour_at(dark ? viridis.dark : viridis.light, level / (Paint::kLevels - 1.0)));
  }
  return colours;
}

}  // namespace hooked
