#pragma once

#include <functional>

#include "hooks/watch.h"

namespace hooked {

/// The columns that an axis of an activation counts; null if they are unknown.
using ColumnsOfAxis = std::function<const TokenColumns*(Axis)>;

/// Throws HookError if a position in these indices counts from the end and is padding in a row that they
/// cover: callers that give one mean the end of a row's tokens.
void require_no_padding(const ActivationName& name, const AxisIndices& indices, const ColumnsOfAxis& columns);

/// The same for all edits of a plan, and for the kept positions. Reads masks, so it is called before a
/// run.
void require_no_padding(const WatchPlan& plan, const RunExtent& extent);

}  // namespace hooked
