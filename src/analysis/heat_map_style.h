#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "analysis/colour_scale.h"

namespace hooked {

/// The style sheet of a heat map for a light and a dark page: the classes of the paints `used`, and what is
/// marked (`in-r3`, `in-c5`) while the pointer is on a cell of row 3 (`r3`) and column 5 (`c5`).
std::string heat_map_style(const ColourScale& scale, const std::set<Paint>& used, std::int64_t rows,
                           std::int64_t columns);

}  // namespace hooked
