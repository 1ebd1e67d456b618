#pragma once

#include <optional>
#include <vector>

#include "hooked/analysis/attribution_patching.h"
#include "hooked/analysis/sweep.h"
#include "tests/combinations/comparison.h"
#include "tests/combinations/subject.h"

/// What sweeps and estimates share: metrics and sources for the engine and as formulas over the oracle's
/// runs, and the cells.
namespace hooked::combinations {

/// The batch's column whose logits a score reads in a row, or -1 where that is padding.
std::int64_t score_column(const Score& score, const Row& row);

/// The metric as the engine takes it.
Metric metric_of(const Subject& subject);

/// Its number of one run of a row.
double score_of(const Subject& subject, const Row& row, const reference::PlainRun& run);

/// What is patched in, for the engine.
PatchSource source_of(const Subject& subject);

/// What is patched in, for the oracle.
class OracleSource {
 public:
  explicit OracleSource(const Subject& subject);

  /// How many rows a value may be drawn from; 1 where nothing is drawn.
  std::int64_t draws() const { return draws_; }

  /// The value at a point of a row; `index` has the batch's columns on axes of positions, `from` the column
  /// that stands in for the position. Nothing where there is none.
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

/// How a source is put into a cell.
struct PatchShare {
  double share = 1.0;     ///< the rest stays as it is
  std::int64_t draw = 0;  ///< the row that a resampled source draws
};

/// The change that puts the source into a cell.
reference::Change patch_of(const OracleSource& source, const Cell& cell, const Row& row,
                           const PatchShare& put);

/// The sweep's options for the engine, without hooks that are attached.
SweepOptions sweep_options(const Subject& subject);

/// How an estimate integrates, as the engine takes it.
Integration integration_of(const Estimate& how);

/// What an estimate of a cell in a row should be, of a source that draws nothing; nothing where the score has
/// a kink nearby.
std::optional<double> estimate_of(const Subject& subject, const OracleSource& source, const Row& row,
                                  const Cell& cell);

/// Indices of at most so many cells of a grid of these sizes, spread over it.
std::vector<std::vector<std::int64_t>> some_cells(const std::vector<std::int64_t>& sizes, std::int64_t most);

}  // namespace hooked::combinations
