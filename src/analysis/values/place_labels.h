#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hooked/analysis/grid.h"

namespace hooked {

/// What tells the places of an axis apart, one label each. On an axis of tokens that is the column or the
/// name of a place, without the text of the token there: the same column of another prompt is the same place.
std::vector<std::string> place_labels(const GridAxis& axis);

/// The same of one place.
std::string place_label(const GridAxis& axis, std::int64_t place);

}  // namespace hooked
