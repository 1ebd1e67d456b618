#pragma once

#include <functional>

#include "hooks/watch.h"

namespace hooked {

/// The columns that an axis of an activation counts; null where nothing is known of them.
using ColumnsOfAxis = std::function<const TokenColumns*(Axis)>;

/// Throws HookError where a position in these indices counts from the end and is padding in a row that they
/// are about: whoever gives one means the end of a row's tokens.
void require_no_padding(const ActivationName& name, const AxisIndices& indices, const ColumnsOfAxis& columns);

/// The same for all edits of a plan, and for the positions that are kept. Reads masks, so it is asked before
/// a run.
void require_no_padding(const WatchPlan& plan, const RunExtent& extent);

}  // namespace hooked
