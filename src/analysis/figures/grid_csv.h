#pragma once

#include <string_view>

#include "analysis/figures/grid_record.h"
#include "hooked/analysis/grid.h"

namespace hooked {

/// The grid in the text of a CSV that Grid::to_csv wrote; `where` is its file.
Grid grid_of_csv(std::string_view text, std::string_view where, const RecordReader& reader);

}  // namespace hooked
