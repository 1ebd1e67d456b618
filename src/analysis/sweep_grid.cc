#include "analysis/sweep_grid.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "analysis/row_major.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

/// Scores [metric, row, ...] with the axes that have a name.
struct Laid {
  at::Tensor values;
  std::vector<GridAxis> axes;
};

Laid lay_out(at::Tensor scores, const ScoreAxes& axes, std::vector<GridAxis> cells) {
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
  } else {
    scores = scores.select(0, 0);
  }
  if (axes.shows_rows) {
    GridAxis row{.name = "row", .labels = {}};
    for (const std::int64_t number : axes.rows) row.labels.push_back(std::to_string(number));
    all.push_back(std::move(row));
  } else {
    scores = scores.select(axes.metrics.size() > 1 ? 1 : 0, 0);
  }
  std::move(cells.begin(), cells.end(), std::back_inserter(all));
  return {std::move(scores), std::move(all)};
}

std::string unit_of(const ScoreAxes& axes) {
  return axes.metrics.size() == 1 ? axes.metrics.front().name() : "score";
}

/// Where the options name the rows, or the end.
std::vector<SweptAxis>::const_iterator batch_of(const SweepOptions& options) {
  return std::find_if(options.over.begin(), options.over.end(),
                      [](const SweptAxis& axis) { return axis.axis == Axis::batch; });
}

/// The rows that are swept, by Axis::batch of the options; all where it is not named.
std::vector<std::int64_t> rows_of(const SweepOptions& options, const SweepInput& into) {
  std::vector<std::int64_t> rows;
  for (const SweptAxis& axis : options.over) {
    if (axis.axis != Axis::batch) continue;
    if (&axis != &*batch_of(options)) throw HookError("sweep", "batch stands twice in `over`");
    for (const SweptPlace& place : axis.places) {
      const auto number = place.into.column();
      if (!number || place.from != place.into || *number < -into.rows() || *number >= into.rows()) {
        throw HookError("sweep", fmt::format("{} is no row of `into`; expected a number from {} to {}",
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

}  // namespace

Grid score_grid(const at::Tensor& scores, const ScoreAxes& axes, std::string title) {
  auto [values, all] = lay_out(scores, axes, {});
  return Grid(values, std::move(all), {.title = std::move(title), .unit = unit_of(axes)});
}

SweepReport swept(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into,
                  const CellPlan& plan, OnFailure on_failure) {
  if (options.tokens_per_run < 1) {
    throw HookError("sweep",
                    fmt::format("tokens_per_run is {}; expected at least 1", options.tokens_per_run));
  }
  const auto batch = batch_of(options);
  const ScoreAxes axes{.metrics = options.metric.all(),
                       .rows = rows_of(options, into),
                       .shows_rows = into.rows() > 1 || batch != options.over.end()};
  const CellScores made = run_cells(model, options, into, plan, axes.rows, on_failure);

  std::vector<std::int64_t> shape{made.scores.size(0), made.scores.size(1)};
  for (const GridAxis& axis : plan.axes) shape.push_back(places_on(axis));
  auto [values, all] = lay_out(made.scores.view(shape), axes, plan.axes);
  if (batch != options.over.end()) {
    // The rows stand where the caller named them.
    const std::ptrdiff_t first = axes.metrics.size() > 1 ? 1 : 0;
    const std::ptrdiff_t place = first + (batch - options.over.begin());
    values = values.movedim(first, place);
    std::rotate(all.begin() + first, all.begin() + first + 1, all.begin() + place + 1);
  }
  SweepReport report{.grid = Grid(values, all, {.title = plan.title, .unit = unit_of(axes)}),
                     .unpatched = score_grid(made.unpatched, axes, "Unpatched"),
                     .failed = {},
                     .runs = made.runs,
                     .seconds = made.seconds,
                     .complete = made.complete};
  for (const CellScores::Failure& failure : made.failures) {
    FailedCell failed{.index = index_of(failure.cell, plan.axes), .labels = {}, .error = failure.error};
    if (axes.shows_rows) {
      const std::ptrdiff_t place = batch == options.over.end() ? 0 : batch - options.over.begin();
      failed.index.insert(failed.index.begin() + place, failure.row);
    }
    if (axes.metrics.size() > 1) failed.index.insert(failed.index.begin(), failure.metric);
    for (std::size_t i = 0; i < failed.index.size(); ++i)
      failed.labels.push_back(all[i].labels[static_cast<std::size_t>(failed.index[i])]);
    report.failed.push_back(std::move(failed));
  }
  return report;
}

}  // namespace hooked
