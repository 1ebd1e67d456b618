#pragma once

#include <cstdint>
#include <vector>

#include "analysis/figures/colour_scale.h"

namespace hooked {

/// The colours of `count` lines. If there are more lines than colours of their own, they run from one end of
/// a scale to the other, like the places of an axis.
std::vector<Rgb> line_colours(std::int64_t count, bool dark);

}  // namespace hooked
