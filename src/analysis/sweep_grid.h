#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/cell_runs.h"
#include "hooked/analysis/sweep.h"

namespace hooked {

/// The axes that scores have before those of their cells.
struct ScoreAxes {
  std::vector<Metric> metrics;     ///< an axis where there are several
  std::vector<std::int64_t> rows;  ///< by their numbers
  bool shows_rows;                 ///< whether there is an axis of them
};

/// Scores [metric, row] as a grid.
Grid score_grid(const at::Tensor& scores, const ScoreAxes& axes, std::string title);

/// Runs a plan for the rows of `into` that the options name, and lays the numbers out.
SweepReport swept(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into,
                  const CellPlan& plan, OnFailure on_failure);

}  // namespace hooked
