#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hooked/analysis/line_plot.h"

namespace hooked {

/// An axis with numbers on it: where each lies between the limits, and which ones are written.
class PlotAxis {
 public:
  struct Tick {
    double value;
    std::string label;
  };

  /// From `low` to `high`, low below high, both above zero on a logarithmic axis.
  PlotAxis(PlotScale scale, double low, double high) : scale_(scale), low_(low), high_(high) {}

  /// The axis of `numbers` within the limits that are set, the other ones at round numbers with `ticks` ticks
  /// at most. Throws ConfigError on limits that contradict each other or the scale, and where a logarithmic
  /// axis has no number above zero.
  static PlotAxis around(const std::vector<double>& numbers, PlotScale scale, std::optional<double> low,
                         std::optional<double> high, std::size_t ticks);

  double low() const { return low_; }
  double high() const { return high_; }

  /// 0 at the low limit, 1 at the high one, outside beyond them; nothing for what has no place: NaN,
  /// infinities, and on a logarithmic axis what is not above zero.
  std::optional<double> share(double value) const;

  /// Round numbers from limit to limit, at most `most`, if there are two of them, else the limits.
  std::vector<Tick> ticks(std::size_t most) const;

 private:
  std::vector<double> linear_ticks(std::size_t most) const;
  std::vector<double> logarithmic_ticks(std::size_t most) const;

  PlotScale scale_;
  double low_, high_;
};

}  // namespace hooked
