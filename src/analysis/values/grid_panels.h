#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "hooked/analysis/grid.h"

namespace hooked {

/// The number of panels that show a grid: one for each place of the axes before the last two.
std::int64_t panel_count(const Grid& grid);

/// The place of a panel: each of these axes with the index of the panel's place on it. Panels count in the
/// order of the values.
std::vector<std::pair<const GridAxis*, std::size_t>> panel_place(const Grid& grid, std::int64_t panel);

}  // namespace hooked
