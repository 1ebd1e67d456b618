#pragma once

#include "analysis/patching/cell_plan.h"

namespace hooked {

/// The plan of a sweep over explicit cells.
CellPlan cells_of_table(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into);

}  // namespace hooked
