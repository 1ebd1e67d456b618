#pragma once

#include <string>

#include "hooked/analysis/grid.h"
#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// A grid as a self-contained SVG picture without scripts: title, labels, colour bar, and the numbers where
/// they fit. The last axis runs to the right, the one before it down; each place of
/// the axes before them has a panel, all with one scale. NaN, infinities and numbers beyond the limits have
/// colours of their own that the legend names. The colours follow the reader's light or dark scheme; pointing
/// at a cell shows its place and value and marks its row and column. Throws ConfigError on an unknown palette
/// and on numbers that contradict each other, ShapeError for a grid without axes and when `options.blank`
/// does not fit it.
std::string heat_map_svg(const Grid& grid, const HeatMapOptions& options = {});

}  // namespace hooked
