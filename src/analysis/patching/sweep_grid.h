#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/patching/cell_runs.h"
#include "hooked/analysis/sweep.h"

namespace hooked {

/// The axes that scores have before those of their cells.
struct ScoreAxes {
  std::vector<Metric> metrics;     ///< an axis if there are several
  std::vector<std::int64_t> rows;  ///< by their numbers
  bool shows_rows;                 ///< whether there is an axis for them
};

/// A place in a grid.
struct GridPlace {
  std::vector<std::int64_t> index;
  std::vector<std::string> labels;
};

/// Where the numbers of a plan's cells are in a grid.
class SweepLayout {
 public:
  /// For the rows of `into` that the options name.
  SweepLayout(const SweepOptions& options, const SweepInput& into, const CellPlan& plan);

  /// By their numbers.
  const std::vector<std::int64_t>& rows() const noexcept { return axes_.rows; }
  /// Of one number: `row` is an index into rows().
  GridPlace place(std::int64_t metric, std::int64_t row, std::int64_t cell) const;
  SweepReport report(const CellScores& made) const;

 private:
  const CellPlan& plan_;
  PatchSource source_;
  ScoreAxes axes_;
  std::ptrdiff_t row_axis_ = 0;  // after that of metrics
  std::vector<GridAxis> all_;    // as the grid has them
};

/// Runs a plan for the rows of `into` that the options name, and arranges the numbers in a grid.
SweepReport swept(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into,
                  const CellPlan& plan, OnFailure on_failure);

}  // namespace hooked
