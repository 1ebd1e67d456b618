#pragma once

#include <cstdint>
#include <vector>

#include "analysis/figures/colour_scale.h"

namespace hooked {

/// The colours of `count` lines. More lines than have colours of their own run from one end of a scale to the
/// other, as places of an axis do.
std::vector<Rgb> line_colours(std::int64_t count, bool dark);

}  // namespace hooked
