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

  /// The number of whole pairs, the first ones: not all pairs if the sweep was ended early.
  std::int64_t pairs() const { return report_.rows; }
  /// Of all pairs.
  std::int64_t all_pairs() const { return values_.size(1); }

  /// The numbers of one metric: for each pair on a first axis `pair`, or over the whole pairs: means of
  /// scores, which are comparable with the unpatched ones only if all pairs have the place, and NaN
  /// otherwise; and for rescaled numbers the share of the difference of means, over the pairs that have it.
  /// If no pair is whole, a place has a number once all pairs have reached it. The title says if the sweep
  /// was ended early, and over which pairs means are.
  Grid of_metric(std::size_t metric, PatchScale scale, bool per_pair) const;
  /// The numbers of several metrics, on a first axis `metric`; of one as of_metric().
  Grid of_metrics(const std::vector<std::size_t>& metrics, PatchScale scale, bool per_pair) const;
  /// The numbers of all metrics.
  std::vector<std::size_t> metrics() const;
  /// Whether the clean and the corrupted run differ in a metric, so that its numbers can be rescaled.
  bool has_scale(std::size_t metric) const;
  /// The score without a patch, the mean over the pairs that means are over.
  double unpatched(std::size_t metric) const;
  /// Keys after the query, bool over the axes of a grid after those of metrics and pairs, if none of them
  /// changes a score: a causal model never attends to them. Undefined without such cells.
  at::Tensor unseen_keys() const;
  /// Whether numbers are missing only at places that do not exist, such as padding.
  bool lacks_only_what_is_not_there() const;
  /// Whether there are places that some pairs have and others do not, so that scores have no mean there.
  bool some_pairs_lack_places() const;

 private:
  /// Whether all runs reported finite numbers. Then NaN is a missing number, which a mean leaves out.
  bool all_finite() const;
  /// Whether means leave missing numbers out.
  bool leaves_out_missing() const { return all_finite() && (report_.complete || pairs() > 0); }
  /// The number of pairs that means are over.
  std::int64_t averaged() const { return pairs() > 0 ? pairs() : all_pairs(); }
  /// Where no pair's score differs from the one without a patch, or it has none, bool: the axes of a grid
  /// after those of metrics and pairs.
  at::Tensor unchanged() const;
  /// The scores without a patch, [metric, pair].
  at::Tensor before() const;
  std::string title(bool per_pair) const;
  at::Tensor numbers(std::size_t metric, PatchScale scale, bool per_pair) const;
  std::vector<GridAxis> axes(bool per_pair) const;

  std::string name_;
  SweepReport report_;
  UnpatchedScores unpatched_;
  at::Tensor values_;            // [metric, pair, ...]
  std::vector<GridAxis> cells_;  // its axes from the third on
};

/// The scores without patches and the metrics' names, as a table; `pairs` of them, as words: `3 pairs`.
void print_unpatched(const UnpatchedScores& scores, const std::string& pairs, bool per_pair);
/// A sweep's tables.
void print_sweep(const SweepNumbers& sweep, const UnpatchedScores& scores, bool per_pair);
/// All results of a patching: the unpatched scores of each metric, and for each sweep its grids.
Json patching_json(const std::vector<SweepNumbers>& sweeps, const UnpatchedScores& scores, bool per_pair);

}  // namespace hooked::cli
