#include "hooked/analysis/sweep.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "analysis/patching/sweep_grid.h"
#include "analysis/values/row_major.h"
#include "analysis/work/as_memory_allows.h"
#include "hooked/analysis/spelling.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

/// The axes of metrics and of rows, each only if there are several.
std::vector<GridAxis> axes_before(const ScoreAxes& axes) {
  std::vector<GridAxis> all;
  if (axes.metrics.size() > 1) {
    GridAxis metric{.name = "metric", .labels = {}};
    for (const Metric& one : axes.metrics) {
      const auto before = std::count_if(metric.labels.begin(), metric.labels.end(), [&](const auto& label) {
        return label == one.name() || label.starts_with(one.name() + " (");
      });
      metric.labels.push_back(before == 0 ? one.name() : fmt::format("{} ({})", one.name(), before + 1));
    }
    all.push_back(std::move(metric));
  }
  if (axes.shows_rows) {
    GridAxis row{.name = "row", .labels = {}};
    for (const std::int64_t number : axes.rows) row.labels.push_back(std::to_string(number));
    all.push_back(std::move(row));
  }
  return all;
}

/// Scores [metric, row, ...] without the axes that have no name.
at::Tensor without_single(at::Tensor scores, const ScoreAxes& axes) {
  if (!axes.shows_rows) scores = scores.select(1, 0);
  return axes.metrics.size() > 1 ? scores : scores.select(0, 0);
}

std::string unit_of(const ScoreAxes& axes) {
  return axes.metrics.size() == 1 ? axes.metrics.front().name() : "score";
}

/// Where the options name the rows, or the end.
std::vector<SweptAxis>::const_iterator batch_of(const SweepOptions& options) {
  return std::find_if(options.over.begin(), options.over.end(),
                      [](const SweptAxis& axis) { return axis.axis == Axis::batch; });
}

/// The rows that are swept, by Axis::batch of the options; all if it is not named.
std::vector<std::int64_t> rows_of(const SweepOptions& options, const SweepInput& into) {
  std::vector<std::int64_t> rows;
  for (const SweptAxis& axis : options.over) {
    if (axis.axis != Axis::batch) continue;
    if (&axis != &*batch_of(options)) throw HookError("sweep", "batch occurs twice in `over`");
    for (const SweptPlace& place : axis.places) {
      const auto number = place.into.column();
      if (!number || place.from != place.into || *number < -into.rows() || *number >= into.rows()) {
        throw HookError("sweep", fmt::format("{} is not a row of `into`; expected a number from {} to {}",
                                             place.into.label(), -into.rows(), into.rows() - 1));
      }
      rows.push_back(*number < 0 ? *number + into.rows() : *number);
    }
  }
  if (!rows.empty()) return rows;
  rows.resize(static_cast<std::size_t>(into.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

/// Scores [metric, row] as a grid.
Grid score_grid(const at::Tensor& scores, const ScoreAxes& axes, std::string title) {
  return Grid(without_single(scores, axes), axes_before(axes),
              {.title = std::move(title), .unit = unit_of(axes)});
}

SweepReport report_of(const HookedTransformer& model, const SweepOptions& options, OnFailure on_failure) {
  const SweepInput into(model, options.into);
  return swept(model, options, into, make_plan(model, options, into), on_failure);
}

}  // namespace

SweepLayout::SweepLayout(const SweepOptions& options, const SweepInput& into, const CellPlan& plan)
    : plan_(plan), source_(options.from) {
  if (options.tokens_per_run < 1) {
    throw HookError("sweep",
                    fmt::format("tokens_per_run is {}; expected at least 1", options.tokens_per_run));
  }
  const auto batch = batch_of(options);
  const bool named = batch != options.over.end();
  axes_ = {.metrics = options.metric, .rows = rows_of(options, into), .shows_rows = into.rows() > 1 || named};
  if (named) row_axis_ = batch - options.over.begin();
  all_ = axes_before(axes_);
  all_.insert(all_.end(), plan.axes.begin(), plan.axes.end());
  const std::ptrdiff_t first = axes_.metrics.size() > 1 ? 1 : 0;
  // The rows' axis is where the caller named it.
  std::rotate(all_.begin() + first, all_.begin() + first + (named ? 1 : 0),
              all_.begin() + first + row_axis_ + (named ? 1 : 0));
}

GridPlace SweepLayout::place(std::int64_t metric, std::int64_t row, std::int64_t cell) const {
  GridPlace place{.index = index_of(cell, plan_.axes), .labels = {}};
  if (axes_.shows_rows) place.index.insert(place.index.begin() + row_axis_, row);
  if (axes_.metrics.size() > 1) place.index.insert(place.index.begin(), metric);
  for (std::size_t i = 0; i < place.index.size(); ++i)
    place.labels.push_back(all_[i].labels[static_cast<std::size_t>(place.index[i])]);
  return place;
}

SweepReport SweepLayout::report(const CellScores& made) const {
  std::vector<std::int64_t> shape{made.scores.size(0), made.scores.size(1)};
  for (const GridAxis& axis : plan_.axes) shape.push_back(places_on(axis));
  const at::Tensor values = without_single(made.scores.view(shape), axes_);
  const std::ptrdiff_t first = axes_.metrics.size() > 1 ? 1 : 0;
  SweepReport report{.grid = Grid(axes_.shows_rows ? values.movedim(first, first + row_axis_) : values, all_,
                                  {.title = titled(plan_.title, source_), .unit = unit_of(axes_)}),
                     .unpatched = score_grid(made.unpatched, axes_, "Unpatched"),
                     .failed = {},
                     .runs = made.runs,
                     .seconds = made.seconds,
                     .complete = made.complete,
                     .rows = made.rows,
                     .notes = made.notes,
                     .source = source_.description()};
  for (const CellScores::Failure& failure : made.failures) {
    GridPlace at = place(failure.metric, failure.row, failure.cell);
    report.failed.push_back(
        {.index = std::move(at.index), .labels = std::move(at.labels), .error = failure.error});
  }
  return report;
}

SweepReport swept(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into,
                  const CellPlan& plan, OnFailure on_failure) {
  require_source(options.from, model);
  const SweepLayout layout(options, into, plan);
  SweepReport report = layout.report(run_cells({model, options, into, plan, layout.rows()}, on_failure));
  // They need a run, which is made only if failures are listed: then the caller gets the report.
  if (on_failure == OnFailure::is_listed && report.complete) {
    const RunOptions run{.hooks = options.hooks, .edits = options.edits};
    for (std::string& note : spelling_notes(model, into.all(), options.metric, run))
      report.notes.push_back(std::move(note));
  }
  return report;
}

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
  return score_grid(at::stack(values), {.metrics = metric, .rows = rows, .shows_rows = rows.size() > 1},
                    "Scores");
}

}  // namespace hooked
