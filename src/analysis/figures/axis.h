#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hooked/analysis/grid.h"
#include "hooked/analysis/line_plot.h"

namespace hooked {

/// Labels of an axis along one side of a picture: which are shown, and how.
struct LabelRow {
  /// Labels of places one below the other, `cell` pixels apart.
  static LabelRow beside(const GridAxis& axis, double cell);
  /// Labels of places next to each other, `cell` pixels apart: tilted if too few would fit otherwise.
  static LabelRow below(const GridAxis& axis, double cell);

  std::vector<std::string> texts;  ///< as shown: spaces visible, cut if very long; one per place
  std::int64_t step = 1;           ///< every step-th label is shown
  double font = 12;                ///< pixels
  double widest = 0;               ///< pixels, of those shown
  bool tilted = false;

  bool shows(std::int64_t place) const { return place % step == 0; }
  /// How far labels below the picture reach down.
  double height() const;
  /// How far the first of them reaches to the left of its place's middle.
  double overhang() const;

  /// The element of the label next to a place whose middle is at `y`, right-aligned at `right`.
  std::string beside_element(std::int64_t place, double right, double y, std::string_view css_class) const;
  /// The element of the label below a place whose middle is at `x`, if the picture ends at `foot`.
  std::string below_element(std::int64_t place, double x, double foot, std::string_view css_class) const;
};

/// The least of 1, 2, 5, 10, 20, 50, ... that is at least `number`, to rounding.
std::int64_t round_step(double number);

/// A place of an axis, or several from the first to the last, in words: `pos 3 a`, `pos 3 – 5`.
std::string place_words(const GridAxis& axis, std::int64_t begin, std::int64_t end);

/// The range of some numbers.
struct NumberRange {
  double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
  bool has_nan = false;

  void add(double number);
  /// Whether all numbers so far were NaN, or none was added.
  bool empty() const { return lowest > highest; }
  /// `0.5`, `0.5 to 2, NaN`; empty before anything was added.
  std::string words() const;
};

/// The ends of the range of the `flat`th number of a grid; nothing for a number without a range.
std::optional<std::pair<double, double>> interval_at(const Grid& grid, std::int64_t flat);
/// The same after the number, in words: ` [0.1, 0.3]`, or empty.
std::string interval_words(const Grid& grid, std::int64_t flat);

/// Throws ConfigError in the name of `where` for an option `name` that is set and not finite.
void require_finite(const char* where, const char* name, std::optional<double> number);
/// The same for limits, and unless the low one is below the high one.
void require_limits(const char* where, std::optional<double> low, std::optional<double> high);

/// An axis with numbers on it: where each is between the limits, and which ones are written.
class PlotAxis {
 public:
  struct Tick {
    double value;
    std::string label;
  };

  /// From `low` to `high`, low below high, both above zero on a logarithmic axis.
  PlotAxis(PlotScale scale, double low, double high) : scale_(scale), low_(low), high_(high) {}

  /// The axis of `numbers`: limits that are not set are round numbers, and there are at most `ticks` ticks.
  /// Throws ConfigError for limits that contradict each other or the scale, and if a logarithmic axis has no
  /// number above zero.
  static PlotAxis around(std::span<const double> numbers, PlotScale scale, std::optional<double> low,
                         std::optional<double> high, std::size_t ticks);

  double low() const { return low_; }
  double high() const { return high_; }

  /// 0 at the low limit, 1 at the high one, outside of these beyond the limits; nothing for NaN, infinities
  /// and, on a logarithmic axis, numbers that are not above zero.
  std::optional<double> share(double value) const;

  /// Round numbers from limit to limit, at most `most`, if there are at least two; else the limits.
  std::vector<Tick> ticks(std::size_t most) const;

 private:
  std::vector<double> linear_ticks(std::size_t most) const;
  std::vector<double> logarithmic_ticks(std::size_t most) const;

  PlotScale scale_;
  double low_, high_;
};

}  // namespace hooked
