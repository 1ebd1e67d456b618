#include "hooked/analysis/sweep.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "analysis/patching/sweep_grid.h"
#include "analysis/work/as_memory_allows.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

SweepReport report_of(const HookedTransformer& model, const SweepOptions& options, OnFailure on_failure) {
  const SweepInput into(model, options.into);
  return swept(model, options, into, make_plan(model, options, into), on_failure);
}

}  // namespace

Grid sweep(const HookedTransformer& model, const SweepOptions& options) {
  return report_of(model, options, OnFailure::throws).grid;
}

SweepReport sweep_report(const HookedTransformer& model, const SweepOptions& options) {
  return report_of(model, options, OnFailure::is_listed);
}

Grid scores(const HookedTransformer& model, const Input& input, const Metrics& metric) {
  const SweepInput all(model, input);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(all.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<at::Tensor> values;
  for (const BoundMetric& bound : bound_metrics(model, metric, all.all())) {
    with_memory(memory_of_analysis(model.device(), "scores"), [&] {
      values.push_back(bound(model.run(all.all(), bound.needs())).detach().to(at::kCPU, at::kDouble));
    });
  }
  return score_grid(at::stack(values), {.metrics = metric.all(), .rows = rows, .shows_rows = rows.size() > 1},
                    "Scores");
}

}  // namespace hooked
