#pragma once

#include <optional>
#include <vector>

#include "hooked/analysis/attribution_patching.h"
#include "hooked/analysis/sweep.h"
#include "tests/combinations/comparison.h"
#include "tests/combinations/subject.h"

/// Shared by sweeps and estimates: metrics and sources for the engine and as formulas over the oracle's
/// runs, and the cells.
namespace hooked::combinations {

/// The batch's column whose logits a score reads in a row, or -1 if that is padding.
std::int64_t score_column(const Score& score, const Row& row);

/// The metric in the engine's form.
Metric metric_of(const Subject& subject);

/// Its number for one run of a row.
double score_of(const Subject& subject, const Row& row, const reference::PlainRun& run);

/// The patched values, for the engine.
PatchSource source_of(const Subject& subject);

/// The patched values, for the oracle.
class OracleSource {
 public:
  explicit OracleSource(const Subject& subject);

  /// The number of rows from which a value may be drawn; 1 if nothing is drawn.
  std::int64_t draws() const { return draws_; }

  /// The value at a point of a row; `index` has the batch's columns on axes of positions, `from` the column
  /// that replaces the position. Nothing if it has none.
  std::optional<double> value(const ActivationName& name, const Row& row, std::vector<std::int64_t> index,
                              std::optional<std::int64_t> from, std::int64_t draw) const;

 private:
  std::optional<double> run_value(const ActivationName& name, const Row& row, const reference::PlainRun& run,
                                  const std::vector<std::int64_t>& index) const;
  std::optional<double> mean(const ActivationName& name, const std::vector<std::int64_t>& index) const;

  const Subject& subject_;
  Source source_;
  std::vector<Row> data_;
  std::vector<reference::PlainRun> data_runs_;
  std::int64_t draws_ = 1;
};

/// One cell of a sweep in one row.
struct Cell {
  Where where = {};                       ///< the block
  std::optional<std::int64_t> from = {};  ///< the position that values come from, where it is another one
  std::vector<std::int64_t> from_of_draw = {};  ///< the same by the row that is drawn, of a named place
  bool exists = true;  ///< whether the layer has the block and no position is padding
};

/// The cell at an index of the grid, whose axes are those of `over`.
Cell cell_at(const Subject& subject, const Row& row, const std::vector<std::int64_t>& index);

/// How a source is patched into a cell.
struct PatchShare {
  double share = 1.0;     ///< the rest stays as it is
  std::int64_t draw = 0;  ///< the row that a resampled source draws
};

/// The change that patches the source into a cell.
reference::Change patch_of(const OracleSource& source, const Cell& cell, const Row& row,
                           const PatchShare& put);

/// The sweep's options for the engine, without attached hooks.
SweepOptions sweep_options(const Subject& subject);

/// How an estimate integrates, as the engine takes it.
Integration integration_of(const Estimate& how);

/// The expected estimate of a cell in a row, for a source that draws nothing; nothing if the score has
/// a kink nearby.
std::optional<double> estimate_of(const Subject& subject, const OracleSource& source, const Row& row,
                                  const Cell& cell);

/// Indices of at most that many cells of a grid of these sizes, spread over it.
std::vector<std::vector<std::int64_t>> some_cells(const std::vector<std::int64_t>& sizes, std::int64_t most);

}  // namespace hooked::combinations
