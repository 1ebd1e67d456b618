#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "hooked/analysis/metric.h"

namespace hooked {

/// Several metrics that score the same runs of one row.
class RowMetrics {
 public:
  /// For row `row` of the input that they are bound to.
  RowMetrics(const std::vector<BoundMetric>& metrics, std::int64_t row);

  /// These options plus what all the metrics read.
  RunOptions needs(RunOptions options = {}) const;
  /// Whether all read logits, and only at their own positions.
  static bool read_places_only(const std::vector<BoundMetric>& metrics);

  std::size_t size() const noexcept { return metrics_.size(); }
  const Metric& metric(std::size_t i) const { return metrics_[i].metric(); }
  /// One metric's scores of runs of the row, made with needs(): [run] float64 on the CPU. Throws what the
  /// metric throws.
  at::Tensor scores(std::size_t i, const RunResult& runs, std::int64_t n_runs) const;
  /// The score of one of these runs, [1].
  at::Tensor score_alone(std::size_t i, const RunResult& runs, std::int64_t run) const;
  /// Throws ShapeError if a metric scores a run differently next to another run than alone.
  void require_rowwise(std::size_t i, const RunResult& one, const RunResult& other) const;

 private:
  std::vector<BoundMetric> metrics_;  // of the one row
  // What all of them read; nothing: every column, every token.
  std::optional<std::vector<std::int64_t>> logit_columns_, logit_tokens_;
};

/// These metrics for an input. Throws HookError if there are none.
std::vector<BoundMetric> bound_metrics(const HookedTransformer& model, const Metrics& metrics,
                                       const Input& into);

}  // namespace hooked
