#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/patching/cell_runs.h"
#include "hooked/analysis/sweep_progress.h"

namespace hooked {

/// The numbers of a sweep in progress, by the index of a row among those that are swept, and the file that
/// keeps them if SweepOptions::partial names one. Used by one thread at a time.
class ScoreTable {
 public:
  /// Takes over what the file holds, and writes it at once: a failure to write should show before the work,
  /// not after. Throws IoError unless the file does not exist or is the partial file of a sweep, and
  /// CheckpointError naming what differs for the file of another sweep.
  explicit ScoreTable(const CellsOfRows& sweep);

  CellScores& scores() { return scores_; }
  /// The scores of a metric in a row, by cell.
  double* of(std::int64_t metric, std::int64_t row);
  bool has_file() const { return !file_.empty(); }
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

  /// Writes the file, all of it or nothing, if there is one. Throws IoError.
  void save();
  /// The same if some time has passed since the last time.
  void save_now_and_then();
  SweepProgress progress() const;
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;

  void load();
  void put(double& kept, double now, std::string_view what) const;

  std::int64_t cells_;
  CellScores scores_;
  std::filesystem::path file_;  // empty: none
  // What identifies a sweep besides its numbers: equal for two sweeps that give the same numbers.
  std::map<std::string, std::string> record_;
  bool* done_ = nullptr;  // scores_.done
  std::int64_t n_done_ = 0, n_done_before_ = 0;
  Clock::time_point began_ = Clock::now(), saved_ = Clock::now();
  Clock::duration between_saves_{};
};

}  // namespace hooked
