#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/patching/cell_plan.h"
#include "analysis/runs/row_metrics.h"

namespace hooked {

/// What the cells of a plan scored.
struct CellScores {
  at::Tensor scores;     ///< [metric, row, cell] float64; NaN for missing numbers
  at::Tensor done;       ///< [row, cell] bool: has its number, or cannot have one
  at::Tensor unpatched;  ///< [metric, row] float64
  at::Tensor sizes;      ///< [row, group] float64: the size of all that a group patches in; NaN: not known
  std::int64_t runs = 0;
  double seconds = 0;
  bool complete = true;
  std::int64_t rows = 0;  ///< the number of first rows that have all of their cells done

  struct Failure {
    std::int64_t metric, row, cell;
    std::string error;
  };
  std::vector<Failure> failures;
  std::vector<std::string> notes = {};  ///< of the runs, each once
};

/// What happens if a metric throws.
enum class OnFailure : std::uint8_t { throws, is_listed };

/// The cells of a plan for some rows of an input.
struct CellsOfRows {
  const HookedTransformer& model;
  const SweepOptions& options;
  const SweepInput& into;
  const CellPlan& plan;
  const std::vector<std::int64_t>& rows;
};

/// Runs these cells; metrics are bound to all of the input.
CellScores run_cells(const CellsOfRows& sweep, OnFailure on_failure);

}  // namespace hooked
