#pragma once

#include <ATen/core/Tensor.h>

#include "analysis/sweep_grid.h"
#include "hooked/analysis/attribution_patching.h"

namespace hooked {

/// Estimates of the cells of a plan.
struct EstimatedPlan {
  const SweepInput& into;
  const CellPlan& plan;
  const SweepLayout& layout;
  at::Tensor estimates;  ///< [row, cell] of the first metric; NaN: none
};

/// Sweeps the cells of the largest estimates and as many others.
AttributionCheck check_cells(const HookedTransformer& model, const AttributionPatchingOptions& options,
                             const EstimatedPlan& made);

/// Pearson's correlation of two lists of numbers; NaN where one of them has no two different ones.
double correlation(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace hooked
