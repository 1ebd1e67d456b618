#pragma once

#include "analysis/patching/cell_plan.h"
#include "hooked/analysis/attribution_patching.h"

namespace hooked {

/// Estimates the cells of a plan. `named` are the options that say where the rows are among the grid's axes.
/// (attribution_patching.cc)
AttributionPatchingReport estimated(const HookedTransformer& model, const AttributionPatchingOptions& options,
                                    const SweepOptions& named, const SweepInput& into, CellPlan plan);

}  // namespace hooked
