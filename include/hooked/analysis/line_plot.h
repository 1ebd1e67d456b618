#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hooked/analysis/grid.h"
#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// How an axis of a line plot is divided.
enum class PlotScale : std::uint8_t {
  linear,       ///< equal distances are equal differences
  logarithmic,  ///< equal distances are equal ratios; shows what is above zero
};

/// How a line plot is drawn. Unset options follow from the numbers; docs/figures.md shows a picture.
struct LinePlotOptions {
  PlotScale x = PlotScale::linear;  ///< logarithmic: labels that are ascending numbers above zero
  PlotScale y = PlotScale::linear;  ///< logarithmic: numbers above zero
  /// Numbers beyond the limits are marked at the edge, and the legend says so. Not set: a round number beyond
  /// all finite numbers, such that a linear axis includes 0.
  std::optional<double> low = {};
  std::optional<double> high = {};  ///< as `low`
  std::int64_t width = 0;           ///< pixels between the axes' ends, at most 4000; 0: 460
  std::int64_t height = 0;          ///< as `width`; 0: 280
};

/// A grid of one or two axes as lines, in a self-contained SVG picture without scripts: the last axis runs to
/// the right, and each place of the axis before it is a line that the legend names. If the labels of the last
/// axis are ascending numbers, they are placed at these numbers; all others are evenly spaced. NaN leaves a
/// gap; infinities and numbers beyond the limits are marks at the edge. The colours follow the reader's light
/// or dark scheme; pointing shows a point's place and value and dims the other lines. Throws ConfigError for
/// limits that contradict each other and if a logarithmic axis has nothing to show, ShapeError for a grid of
/// no axis or of more than two.
std::string line_plot_svg(const Grid& grid, const LinePlotOptions& options = {});

}  // namespace hooked
