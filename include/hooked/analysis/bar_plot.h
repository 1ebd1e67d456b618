#pragma once

#include <cstdint>
#include <string>

#include "hooked/analysis/grid.h"
#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// A grid of one or two axes as bars, in a self-contained SVG picture without scripts: each place of the last
/// axis has a bar, the first one at the top, or one for each place of the axis before it, which the legend
/// names. Bars begin at 0; the number is next to each, and ranges of numbers (mean_interval) are whiskers.
/// NaN has no bar. The colours follow the reader's light or dark scheme; pointing at a bar shows its place,
/// value and range. Throws ShapeError for a grid of no axis or of more than two.
std::string bar_plot_svg(const Grid& grid);

}  // namespace hooked
