#pragma once

#include <string>

#include "hooked/analysis/grid.h"
#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// A grid as a self-contained SVG picture without scripts: title, labels, colour bar, and the numbers where
/// they fit. The last axis runs to the right, the second-to-last down; each place of the axes before them has
/// a panel, and all panels share one scale. NaN, infinities and numbers beyond the limits have colours of
/// their own that the legend names. The colours follow the reader's light or dark scheme; pointing at a cell
/// shows its place and value and highlights its row and column. Throws ConfigError for an unknown palette and
/// for numbers that contradict each other, ShapeError for a grid without axes and if `options.blank` does not
/// fit it.
std::string heat_map_svg(const Grid& grid, const HeatMapOptions& options = {});

}  // namespace hooked
