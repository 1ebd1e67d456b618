#pragma once

#include <vector>

#include "analysis/source_reader.h"
#include "hooked/hooks/edit.h"
#include "hooked/hooks/point_index.h"

namespace hooked {

/// Edits of a batch as edits of runs of one of its rows, however many rows these have.
/// Throws HookError for what the model does not have.
std::vector<Edit> edits_of_row(const std::vector<Edit>& edits, const PointIndex& points, SweptRow row);

}  // namespace hooked
