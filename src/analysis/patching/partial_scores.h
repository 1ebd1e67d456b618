#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "analysis/patching/cell_runs.h"

namespace hooked {

/// What identifies a sweep besides its numbers: equal for two sweeps that give the same numbers.
using SweepRecord = std::map<std::string, std::string>;

/// The file of a sweep in progress.
class PartialScores {
 public:
  /// Throws IoError unless the file may be written: it does not exist, or is the partial file of a sweep.
  PartialScores(std::filesystem::path file, SweepRecord record);

  const std::filesystem::path& path() const { return file_; }
  /// What the file holds; nothing if it does not exist. Throws IoError, and CheckpointError naming what
  /// differs if it is the file of another sweep.
  std::optional<CellScores> load() const;
  /// Throws CheckpointError if a number in the file differs now; NaN in the file matches any number.
  void require_same(double in_file, double now, std::string_view what) const;
  /// Writes the file, all of it or nothing. Throws IoError.
  void save(const CellScores& scores) const;

 private:
  std::filesystem::path file_;
  SweepRecord record_;
};

/// One number that sums up all that is patched in, in this order.
double size_of(const std::vector<Patch>& patches);

/// The record of a sweep.
SweepRecord record_of(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into,
                      const CellPlan& plan, const std::vector<std::int64_t>& rows);

}  // namespace hooked
