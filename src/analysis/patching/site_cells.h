#pragma once

#include "analysis/patching/cell_plan.h"

namespace hooked {

/// The plan of a sweep over the axes of one site; `heads` as for make_plan.
CellPlan cells_of_site(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into,
                       std::int64_t heads);

}  // namespace hooked
