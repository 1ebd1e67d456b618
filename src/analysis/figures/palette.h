#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/figures/png_image.h"
#include "hooked/analysis/grid.h"

namespace hooked {

struct NamedPalette;
struct NumberRange;

/// What the colour of a cell means. Levels come first; other values have a colour of their own.
struct Paint {
  static constexpr int kLevels = 101;  ///< 0 for the low end, 100 for the high one
  enum Special : std::uint8_t { above = kLevels, below, infinity, minus_infinity, nan, blank };

  std::uint8_t code = blank;

  bool is_level() const { return code < kLevels; }
  auto operator<=>(const Paint&) const = default;
};

/// A colour as in a style sheet: `#0072b2`.
std::string css_colour(const Rgb& colour);

/// Which colour a number has, on a light and on a dark page.
class ColourScale {
 public:
  /// Chooses what the options leave open from those `values` (float64, contiguous) that are not `blank`
  /// (bool, same shape). Throws ConfigError for options that contradict each other.
  ColourScale(const at::Tensor& values, const at::Tensor& blank, const HeatMapOptions& options);

  double low() const { return low_; }
  double high() const { return high_; }
  /// The number between the limits on the colour bar: the centre, or the middle.
  double middle() const { return diverging_ ? centre_ : low_ / 2 + high_ / 2; }

  Paint paint(double value) const;

  /// The class of the style sheet that fills with a paint: `Blues-7`, `NaN`.
  std::string css_class(Paint paint) const;
  /// The rules of such classes; `color` is an ink that is readable on the fill.
  std::string css_rule(Paint paint, bool dark) const;
  /// The colour of every code in order.
  std::vector<Rgb> colours(bool dark) const;

 private:
  Rgb colour(Paint paint, bool dark) const;
  void set_sequential(const HeatMapOptions& options, const NumberRange& range);
  void set_diverging(const HeatMapOptions& options, const NumberRange& range);

  const NamedPalette* palette_;
  bool diverging_;
  double low_ = 0, centre_ = 0, high_ = 1;
};

/// The colours of `count` lines. If there are more lines than colours of their own, they run from one end of
/// a scale to the other, like the places of an axis.
std::vector<Rgb> line_colours(std::int64_t count, bool dark);

}  // namespace hooked
