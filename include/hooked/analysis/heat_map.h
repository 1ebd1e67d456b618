#pragma once

#include <string>

#include "hooked/analysis/grid.h"
#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// How a heat map is drawn.
struct HeatMapOptions {
  double cell = 34;  ///< side of a cell in pixels
  /// The absolute value that has the strongest colour; 0 means the largest one of the grid.
  double limit = 0;
};

/// A grid as a self-contained SVG picture: blue for positive and red for negative numbers, white at zero,
/// with title, labels, colour bar and the numbers in the cells. The last axis runs to the right, the one
/// before it down; a third axis gives one panel per place. Numbers that are not finite are grey.
std::string heat_map_svg(const Grid& grid, const HeatMapOptions& options = {});

}  // namespace hooked
