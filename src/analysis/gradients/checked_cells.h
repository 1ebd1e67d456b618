#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "analysis/patching/sweep_grid.h"
#include "hooked/analysis/attribution_patching.h"

namespace hooked {

/// Told after each run of a check how many cells have their effects; false ends the check.
using ReportChecked = std::function<bool(std::int64_t cells)>;

/// The effects of some cells.
struct CellEffects {
  at::Tensor values;  ///< float64 on the CPU; NaN for those that were not reached
  bool complete = true;
};

/// Estimates, and how some of them are checked.
struct CheckedEstimates {
  at::Tensor estimates;  ///< [row, cell] float64; NaN: none
  const SweepLayout& layout;
  std::int64_t count;  ///< the number of largest ones to check, and of others
  std::uint64_t seed;  ///< for drawing the others
  bool sizes;          ///< whether the estimates predict sizes of effects
  /// The effects of these cells of a row, in their order; tells `report` how many of them it has.
  std::function<CellEffects(std::int64_t row, const std::set<std::int64_t>& cells,
                            const ReportChecked& report)>
      effects;
  ReportChecked report;  ///< of all cells
};

/// How many cells a check has at most: the `count` largest of `cells`, and as many others.
inline std::int64_t most_checked(std::int64_t count, std::int64_t cells) {
  return std::min(2 * std::min(count, cells), cells);
}

/// Whether a report has all of the check that was asked for.
inline bool checked_whole(const AttributionPatchingReport& report, std::int64_t count) {
  return count == 0 || (report.check && report.check->complete);
}

/// Compares estimates with effects; `runs` of the result is left at 0.
AttributionCheck check_estimates(const CheckedEstimates& ask);

/// Estimates of the cells of a plan.
struct EstimatedPlan {
  const SweepInput& into;
  const CellPlan& plan;
  const SweepLayout& layout;
  at::Tensor estimates;  ///< [row, cell] of the first metric; NaN: none
  ReportChecked report;
};

/// Sweeps the cells with the largest estimates and the same number of others.
AttributionCheck check_cells(const HookedTransformer& model, const AttributionPatchingOptions& options,
                             const EstimatedPlan& made);

/// Estimates as their report, without a check.
AttributionPatchingReport estimate_report(const SweepLayout& layout, const CellScores& made,
                                          std::int64_t gradient_runs);

}  // namespace hooked
