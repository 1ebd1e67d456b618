#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/json.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/sweep.h"
#include "options/command_options.h"

namespace hooked::cli {

/// The metrics of a patching and what the runs without patches score.
struct UnpatchedScores {
  std::vector<MetricKind> kinds;
  std::vector<std::string> names;  ///< for titles
  at::Tensor clean, corrupted;     ///< [metric, pair] float64
};

/// Which numbers of a sweep are shown.
enum class PatchScale : std::uint8_t {
  scores,    ///< as the metrics give them
  rescaled,  ///< the corrupted run is 0, the clean one 1; NaN where both score the same
};

/// The numbers of one sweep.
class SweepNumbers {
 public:
  SweepNumbers(std::string name, SweepReport report, const UnpatchedScores& unpatched);

  const std::string& name() const { return name_; }
  const SweepReport& report() const { return report_; }

  /// The pairs that have all of their numbers: fewer than there are where the sweep was ended.
  std::int64_t pairs() const { return report_.rows; }

  /// One metric's: each pair's on a first axis `pair`, or what pairs() give together: means of scores, and
  /// for the rescaled ones the share of the means' difference. NaN is left out, and the title says where
  /// these are not all pairs.
  Grid of_metric(std::size_t metric, PatchScale scale, bool per_pair) const;
  /// All metrics', on a first axis `metric` where there are several.
  Grid all(PatchScale scale, bool per_pair) const;
  /// Whether the clean and the corrupted run differ in a metric, so that its numbers can be rescaled.
  bool has_scale(std::size_t metric) const;
  /// How many numbers are missing.
  std::int64_t missing() const;

 private:
  /// Whether all runs said so. Then NaN stands for a missing number, which a mean leaves out.
  bool all_finite() const;
  std::string title(bool per_pair) const;
  at::Tensor numbers(std::size_t metric, PatchScale scale, bool per_pair) const;
  std::vector<GridAxis> axes(bool per_pair) const;

  std::string name_;
  SweepReport report_;
  UnpatchedScores unpatched_;
  at::Tensor values_;            // [metric, pair, ...]
  std::vector<GridAxis> cells_;  // its axes from the third on
};

/// What one metric scores without patches, and the metric's name, as a table.
void print_unpatched(const UnpatchedScores& scores, bool per_pair);
/// A sweep's tables.
void print_sweep(const SweepNumbers& sweep, const UnpatchedScores& scores, bool per_pair);
/// All of a patching: the fields of the contract, and what several metrics and pairs add to them.
Json patching_json(const std::vector<SweepNumbers>& sweeps, const UnpatchedScores& scores, bool per_pair);

}  // namespace hooked::cli
