#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "analysis/patching/sweep_grid.h"
#include "hooked/analysis/attribution_patching.h"

namespace hooked {

/// Estimates, and how some of them are checked.
struct CheckedEstimates {
  at::Tensor estimates;  ///< [row, cell] float64; NaN: none
  const SweepLayout& layout;
  std::int64_t count;  ///< the number of largest ones to check, and of others
  std::uint64_t seed;  ///< for drawing the others
  bool sizes;          ///< whether the estimates predict sizes of effects
  /// The effects of these cells of a row, in their order, float64 on the CPU.
  std::function<at::Tensor(std::int64_t row, const std::set<std::int64_t>& cells)> effects;
};

/// Compares estimates with effects; `runs` of the result is left at 0.
AttributionCheck check_estimates(const CheckedEstimates& ask);

/// Estimates of the cells of a plan.
struct EstimatedPlan {
  const SweepInput& into;
  const CellPlan& plan;
  const SweepLayout& layout;
  at::Tensor estimates;  ///< [row, cell] of the first metric; NaN: none
};

/// Sweeps the cells with the largest estimates and the same number of others.
AttributionCheck check_cells(const HookedTransformer& model, const AttributionPatchingOptions& options,
                             const EstimatedPlan& made);

/// Estimates as their report, without a check.
AttributionPatchingReport estimate_report(const SweepLayout& layout, const CellScores& made,
                                          std::int64_t gradient_runs);

}  // namespace hooked
