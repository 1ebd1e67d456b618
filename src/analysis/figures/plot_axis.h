#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hooked/analysis/line_plot.h"

namespace hooked {

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
  static PlotAxis around(const std::vector<double>& numbers, PlotScale scale, std::optional<double> low,
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
