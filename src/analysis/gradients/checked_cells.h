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
  std::int64_t count;    ///< the number of largest ones to check, and of others
  std::uint64_t seed;    ///< for drawing the others
  bool sizes;            ///< whether the estimates predict sizes of effects
  /// The effects of these cells of a row, in their order, float64 on the CPU.
  std::function<at::Tensor(std::int64_t row, const std::set<std::int64_t>& cells)> effects;
  /// The place of a cell in the grid.
  std::function<GridPlace(std::int64_t row, std::int64_t cell)> place;
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

/// Pearson's correlation of two lists of numbers; NaN if one of them has no two different ones.
double correlation(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace hooked
