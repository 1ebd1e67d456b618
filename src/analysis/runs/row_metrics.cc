#include "analysis/runs/row_metrics.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "hooked/core/error.h"

namespace hooked {
namespace {

bool reads_logits(const BoundMetric& metric) { return metric.metric().definition().reads_logits; }

/// Distinct numbers, ascending; nothing: all.
using Numbers = std::optional<std::vector<std::int64_t>>;

Numbers joined(const Numbers& a, const Numbers& b) {
  if (!a || !b) return std::nullopt;
  std::vector<std::int64_t> both;
  std::set_union(a->begin(), a->end(), b->begin(), b->end(), std::back_inserter(both));
  return both;
}

at::Tensor as_numbers(const at::Tensor& scores) {
  return scores.detach().to(at::kCPU, at::kDouble).contiguous();
}

}  // namespace

RowMetrics::RowMetrics(const std::vector<BoundMetric>& metrics, std::int64_t row) {
  Numbers columns(std::in_place), tokens(std::in_place);
  for (const BoundMetric& metric : metrics) {
    metrics_.push_back(metric.of_row(row));
    if (!reads_logits(metric)) continue;
    columns = joined(columns, metrics_.back().logit_positions());
    tokens = joined(tokens, metrics_.back().logit_tokens());
  }
  logit_columns_ = std::move(columns);
  logit_tokens_ = std::move(tokens);
}

RunOptions RowMetrics::needs(RunOptions options) const {
  bool logits = false;
  for (const BoundMetric& metric : metrics_) {
    options.capture = options.capture | metric.metric().definition().activations;
    logits = logits || reads_logits(metric);
  }
  options.output = logits ? Output::logits : Output::none;
  options.logit_positions = logits ? logit_columns_ : std::nullopt;
  options.logit_tokens = logits ? logit_tokens_ : std::nullopt;
  return options;
}

bool RowMetrics::read_places_only(const std::vector<BoundMetric>& metrics) {
  return std::all_of(metrics.begin(), metrics.end(), [](const BoundMetric& metric) {
    return reads_logits(metric) && metric.logit_positions() &&
           metric.metric().definition().activations.empty();
  });
}

at::Tensor RowMetrics::scores(std::size_t i, const RunResult& runs, std::int64_t n_runs) const {
  const BoundMetric metric =
      metrics_[i].of_rows(std::vector<std::int64_t>(static_cast<std::size_t>(n_runs), 0));
  return as_numbers(metric(runs));
}

at::Tensor RowMetrics::score_alone(std::size_t i, const RunResult& runs, std::int64_t run) const {
  const BoundMetric& metric = metrics_[i];
  const ActivationCache cache =
      metric.metric().definition().activations.empty() ? ActivationCache() : runs.cache.row(run);
  return as_numbers(reads_logits(metric) ? metric(metric.logits_of(runs).narrow(0, run, 1), cache)
                                         : metric({}, cache));
}

void RowMetrics::require_rowwise(std::size_t i, const RunResult& one, const RunResult& other) const {
  const BoundMetric& metric = metrics_[i];
  if (!reads_logits(metric) || !metric.metric().definition().activations.empty()) return;
  const at::Tensor rows = at::cat({metric.logits_of(one), metric.logits_of(other).narrow(0, 0, 1)});
  const at::Tensor together = as_numbers(metric.of_rows({0, 0})(rows));
  for (std::int64_t row = 0; row < 2; ++row) {
    const double alone = as_numbers(metric(rows.narrow(0, row, 1))).item<double>();
    const double in_company = together[row].item<double>();
    if (alone == in_company || (std::isnan(alone) && std::isnan(in_company))) continue;
    if (std::abs(alone - in_company) <= 1e-3 * std::max(1.0, std::abs(alone))) continue;
    throw ShapeError(metric.metric().name(),
                     fmt::format("row {} scores {} alone and {} next to another row; expected a metric that "
                                 "looks at each row separately",
                                 row, alone, in_company));
  }
}

std::vector<BoundMetric> bound_metrics(const HookedTransformer& model, const Metrics& metrics,
                                       const Input& into) {
  if (metrics.empty()) throw HookError("sweep", "nothing scores the runs; expected a metric");
  std::vector<BoundMetric> bound;
  for (const Metric& metric : metrics) bound.push_back(metric.on(model, into));
  return bound;
}

}  // namespace hooked
