#pragma once

#include <cstdint>
#include <set>

#include "analysis/figures/colour_scale.h"
#include "analysis/figures/picture_page.h"

namespace hooked {

/// The rules of a heat map: the classes of the paints `used`, and what is
/// marked (`in-r3`, `in-c5`) while the pointer is on a cell of row 3 (`r3`) and column 5 (`c5`).
PictureRules heat_map_style(const ColourScale& scale, const std::set<Paint>& used, std::int64_t rows,
                            std::int64_t columns);

}  // namespace hooked
