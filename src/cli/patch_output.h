#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/json.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/sweep.h"
#include "options/command_options.h"

namespace hooked::cli {

/// The metrics of a patching and the scores of the runs without patches.
struct UnpatchedScores {
  std::vector<MetricKind> kinds;
  std::vector<std::string> names;  ///< for titles
  at::Tensor clean, corrupted;     ///< [metric, pair] float64
};

/// Which numbers of a sweep are shown.
enum class PatchScale : std::uint8_t {
  scores,    ///< as the metrics return them
  rescaled,  ///< the corrupted run is 0, the clean one 1; NaN if both have the same score
};

/// The numbers of one sweep.
class SweepNumbers {
 public:
  SweepNumbers(std::string name, SweepReport report, const UnpatchedScores& unpatched);

  const std::string& name() const { return name_; }
  const SweepReport& report() const { return report_; }

  /// The number of complete pairs: not all pairs if the sweep was ended early.
  std::int64_t pairs() const { return report_.rows; }

  /// The numbers of one metric: for each pair on a first axis `pair`, or over all pairs(): means of scores,
  /// and for rescaled numbers the share of the means' difference. NaN is left out, and the title says if
  /// these are not all pairs.
  Grid of_metric(std::size_t metric, PatchScale scale, bool per_pair) const;
  /// The numbers of all metrics, on a first axis `metric` if there are several.
  Grid all(PatchScale scale, bool per_pair) const;
  /// Whether the clean and the corrupted run differ in a metric, so that its numbers can be rescaled.
  bool has_scale(std::size_t metric) const;

 private:
  /// Whether all runs reported finite numbers. Then NaN is a missing number, which a mean leaves out.
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

/// The scores without patches and the metrics' names, as a table.
void print_unpatched(const UnpatchedScores& scores, bool per_pair);
/// A sweep's tables.
void print_sweep(const SweepNumbers& sweep, const UnpatchedScores& scores, bool per_pair);
/// All results of a patching: the unpatched scores of each metric, and for each sweep its grids.
Json patching_json(const std::vector<SweepNumbers>& sweeps, const UnpatchedScores& scores, bool per_pair);

}  // namespace hooked::cli
