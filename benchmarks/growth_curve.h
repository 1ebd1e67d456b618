#pragma once

#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "hooked/hooked.h"

/// Costs by line and place; NaN for what was not measured.
struct Curve {
  const char* name;  ///< of its file
  hooked::Grid::Description description;
  const char* line_axis;
  const char* axis;
  bool per_unit;  ///< of work: the whole cost is the value times the place
  hooked::LinePlotOptions plot;
  std::vector<std::int64_t> places = {};
  std::vector<std::string> lines = {};
  std::vector<std::vector<double>> values = {};  ///< [line][place]

  hooked::Grid grid() const {
    std::vector<std::string> labels;
    for (const auto place : places) labels.push_back(std::to_string(place));
    std::vector<double> flat;
    for (const auto& line : values) flat.insert(flat.end(), line.begin(), line.end());
    return {at::tensor(flat, at::kDouble)
                .view({static_cast<std::int64_t>(lines.size()), static_cast<std::int64_t>(places.size())}),
            {{line_axis, lines}, {axis, labels}},
            description};
  }

  /// The exponent of a line's whole cost, from half of the last place, or the place before it, to the last.
  double exponent(std::size_t line) const {
    const auto last = places.size() - 1;
    auto half = last;
    while (half > 0 && 2 * places[half] > places[last]) --half;
    if (half == last || places[half] == 0) return std::numeric_limits<double>::quiet_NaN();
    const double cost = std::log(values[line][last] / values[line][half]),
                 work = std::log(static_cast<double>(places[last]) / static_cast<double>(places[half]));
    return cost / work + (per_unit ? 1 : 0);
  }
};

inline constexpr hooked::LinePlotOptions kRatios{.x = hooked::PlotScale::logarithmic,
                                                 .y = hooked::PlotScale::logarithmic};
inline constexpr hooked::LinePlotOptions kLevel{.x = hooked::PlotScale::logarithmic};

/// The costs of every line at every place: `cost(line, place)`.
inline Curve measured(Curve curve, const std::function<double(std::size_t, std::int64_t)>& cost) {
  for (std::size_t line = 0; line < curve.lines.size(); ++line) {
    curve.values.emplace_back();
    for (const auto place : curve.places) {
      curve.values.back().push_back(cost(line, place));
      fmt::print("{}, {}, {} {}: {:.4g}\n", curve.description.title, curve.lines[line], curve.axis, place,
                 curve.values.back().back());
      std::fflush(stdout);
    }
  }
  return curve;
}

/// As Markdown, a row for each line.
inline std::string table_of(const std::vector<Curve>& curves) {
  std::string text =
      "| as what grows | what is counted | line | first | last | exponent at the end "
      "|\n|---|---|---|---|---|---|\n";
  for (const Curve& curve : curves) {
    for (std::size_t line = 0; line < curve.lines.size(); ++line) {
      const auto& values = curve.values[line];
      const double exponent = curve.exponent(line);
      text +=
          fmt::format("| {} {} to {} | {} | {} | {:.4g} | {:.4g} | {} |\n", curve.axis, curve.places.front(),
                      curve.places.back(), curve.description.unit, curve.lines[line], values.front(),
                      values.back(), std::isnan(exponent) ? "" : fmt::format("{:.2f}", exponent));
    }
  }
  return text;
}
