#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "hooked/analysis/grid.h"

namespace hooked {

/// How many panels show a grid: one for each place of the axes before the last two.
std::int64_t panel_count(const Grid& grid);

/// Where a panel stands on these axes: each with the index of its place. Panels count in the order of the
/// values.
std::vector<std::pair<const GridAxis*, std::size_t>> panel_place(const Grid& grid, std::int64_t panel);

}  // namespace hooked
