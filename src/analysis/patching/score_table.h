#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/patching/cell_runs.h"
#include "analysis/patching/partial_scores.h"
#include "hooked/analysis/sweep_progress.h"

namespace hooked {

/// The numbers of a sweep in progress, by the index of a row among those that are swept, and its file. Used
/// by one thread at a time.
class ScoreTable {
 public:
  /// The number of metrics and rows.
  struct Size {
    std::int64_t metrics, rows;
  };
  /// Takes over what the file holds, and writes it at once: a failure to write should show before the work,
  /// not after. Throws IoError, and CheckpointError for the file of another sweep.
  ScoreTable(const CellPlan& plan, Size size, std::optional<PartialScores> file);

  CellScores& scores() { return scores_; }
  /// The scores of a metric in a row, by cell.
  double* of(std::int64_t metric, std::int64_t row);
  bool has_file() const { return file_.has_value(); }
  bool is_done(std::int64_t row, std::int64_t cell) const { return done_[row * cells_ + cell]; }
  bool is_done(std::int64_t row) const;
  bool all_done() const { return n_done_ == scores_.done.numel(); }

  void mark_done(std::int64_t row, const std::vector<std::int64_t>& cells);
  /// A resumed sweep tries this cell again.
  void mark_failed(std::int64_t row, std::int64_t cell) { done_[row * cells_ + cell] = false; }
  /// Store the score of the run without patches, and the size of all that a group patches in. Throw
  /// CheckpointError if the file has a different number.
  void put_unpatched(std::int64_t metric, std::int64_t row, double score, std::string_view what);
  void put_size(std::int64_t row, std::size_t group, const std::vector<Patch>& patches);

  /// Writes the file, if there is one. Throws IoError.
  void save();
  /// The same if some time has passed since the last time.
  void save_now_and_then();
  SweepProgress progress() const;
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;

  void take_over(CellScores before, const PartialScores& file);

  std::int64_t cells_;
  CellScores scores_;
  std::optional<PartialScores> file_;
  bool* done_ = nullptr;  // scores_.done
  std::int64_t n_done_ = 0, n_done_before_ = 0;
  Clock::time_point began_ = Clock::now(), saved_ = Clock::now();
};

}  // namespace hooked
