#include "hooked/analysis/edge_attribution.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "analysis/gradients/checked_cells.h"
#include "analysis/gradients/edge_walk.h"
#include "analysis/gradients/gradient_run.h"
#include "analysis/patching/sweep_grid.h"
#include "analysis/places/named_tokens.h"
#include "analysis/places/row_columns.h"
#include "analysis/runs/row_metrics.h"
#include "analysis/runs/standing_edits.h"
#include "analysis/values/numberless.h"
#include "analysis/values/row_major.h"
#include "analysis/work/as_memory_allows.h"
#include "analysis/work/work_clock.h"
#include "analysis/work/work_steps.h"
#include "core/parallel.h"
#include "hooked/analysis/path_patching.h"
#include "hooked/core/error.h"
#include "hooked/hooks/point_index.h"

namespace hooked {
namespace {

constexpr const char* kEdgeAttribution = "edge_attribution";

void require(const EdgeAttributionOptions& options) {
  const SweepOptions& sweep = options.sweep;
  if (says_what_is_patched(sweep) || !sweep.partial.empty()) {
    throw HookError(
        kEdgeAttribution,
        "edges are between all parts; expected neither `site`, `table`, `stack`, `partial` nor axes "
        "in `over` but batch");
  }
  if (sweep.metric.size() != 1)
    throw HookError(kEdgeAttribution, fmt::format("expected one metric, got {}", sweep.metric.size()));
  if (options.integration.over == IntegrateOver::activations)
    throw HookError(
        kEdgeAttribution,
        "an edge is not an activation to integrate over; expected integration over inputs or nothing");
  if (options.check < 0)
    throw HookError(kEdgeAttribution, fmt::format("check is {}; expected a number of edges", options.check));
  if (options.check > 0 && options.by_position)
    throw HookError(kEdgeAttribution,
                    "edges are checked at all positions together; expected `by_position` or `check`");
  step_of(options.integration, 0);
}

/// The edges of some rows.
struct EdgesOfRows {
  at::Tensor edges;   ///< [row, writer, reader, ...]
  at::Tensor scores;  ///< [row] without a patch
};

/// The edges of some rows of one input.
class Edges {
 public:
  /// The work's steps begin with the gradients of all rows.
  Edges(const HookedTransformer& model, const EdgeAttributionOptions& options, const SweepInput& into,
        const StreamGraph& graph, const WorkSteps& steps)
      : model_(model),
        options_(options),
        into_(into),
        graph_(graph),
        steps_(steps),
        points_(model.points()),
        metric_(bound_metrics(model, options.sweep.metric, into.all()).front()) {}

  /// Of consecutive rows, before which `before` steps are done; nothing if the work ended before the last of
  /// their gradients.
  std::optional<EdgesOfRows> of_rows(std::int64_t begin, std::int64_t end, std::int64_t before) {
    const Input input = into_.of_rows(begin, end);
    std::vector<SweptRow> rows;
    std::vector<std::int64_t> numbers;
    for (std::int64_t row = begin; row < end; ++row) {
      rows.push_back(into_.row(row));
      numbers.push_back(row);
    }
    const BoundMetric metric = end - begin == 1 ? metric_.of_row(begin) : metric_.of_rows(numbers);
    GradientAsk ask{.of = graph_.differentiated(),
                    .keep = graph_.kept(model_),
                    .of_what_edits_read = graph_.differentiated(),
                    .hold = options_.hold,
                    .layers_at_once = 0,
                    .run = {.hooks = options_.sweep.hooks,
                            .edits = edits_of_row(options_.sweep.edits, points_, rows.front()),
                            .threads = options_.sweep.threads}};
    const auto did = [&](std::int64_t gradients) {
      ++gradient_runs_;
      going_ = steps_.done(before + gradients * (end - begin));
    };
    if (options_.integration.over == IntegrateOver::nothing) {
      EdgesOfRows made;
      made.scores = gradient_run(
          model_, input, metric, ask, [&](const ActivationCache& values, const ActivationCache& gradients) {
            made.edges = edges_of(run_of(input, values, gradients), deltas(values, rows));
          });
      did(1);
      require_slope(model_, metric, made.scores);
      return made;
    }
    RunOptions plain = metric.needs(ask.run);
    const std::vector<ActivationName> entries = InputWay::entries(model_);
    for (const std::vector<ActivationName>* names : {&std::as_const(ask.keep), &entries}) {
      for (const ActivationName& name : *names) plain.capture = plain.capture | Selection(name);
    }
    const RunResult unpatched = model_.run(input, plain);
    const ActivationCache& values = unpatched.cache;
    const std::vector<at::Tensor> deltas = this->deltas(values, rows);
    const InputWay way(model_, options_.sweep.from, values, rows);
    at::Tensor sum;
    for (std::int64_t i = 0; i < options_.integration.steps; ++i) {
      if (!going_) return std::nullopt;
      GradientAsk mixed = ask;
      const Edits on_the_way = way.at(step_of(options_.integration, i));
      mixed.run.edits.insert(mixed.run.edits.end(), on_the_way.begin(), on_the_way.end());
      gradient_run(model_, input, metric, mixed,
                   [&](const ActivationCache& own, const ActivationCache& gradients) {
                     const at::Tensor edges = edges_of(run_of(input, own, gradients), deltas);
                     sum = sum.defined() ? sum + edges : edges;
                   });
      did(i + 1);
    }
    const at::Tensor scores = metric(unpatched);
    if (stays_at_the_run(options_.integration)) require_slope(model_, metric, scores);
    return EdgesOfRows{sum / static_cast<double>(options_.integration.steps), scores};
  }

  /// The edges of these rows of the input, on these axes.
  CellScores estimated(const std::vector<std::int64_t>& rows, const std::vector<GridAxis>& axes);
  /// The number of gradients that they took.
  std::int64_t gradient_runs() const noexcept { return gradient_runs_; }
  /// Whether the work is to go on after them.
  bool going() const noexcept { return going_; }
  /// Compares estimates with path patching.
  AttributionCheck check(const SweepLayout& layout, const at::Tensor& estimates,
                         const ReportChecked& report) const;

 private:
  EdgeRun run_of(const Input& input, const ActivationCache& values, const ActivationCache& gradients) const {
    return {.model = model_,
            .graph = graph_,
            .input = input,
            .values = values,
            .gradients = gradients,
            .norms_held = options_.hold.norms,
            .by_position = options_.by_position};
  }

  std::vector<at::Tensor> deltas(const ActivationCache& values, const std::vector<SweptRow>& rows) const {
    std::vector<at::Tensor> deltas;
    for (const StreamGraph::Writer& writer : graph_.writers) {
      const ActivationName name = points_.resolve(writer.written.name());
      for (const SweptRow& row : rows)
        require_same_columns(options_.sweep.from, into_, {name, Axis::pos}, row);
      const at::Tensor here = values[writer.written];
      deltas.push_back(whole_values(options_.sweep.from, name, here, rows) - here);
    }
    return deltas;
  }

  const HookedTransformer& model_;
  const EdgeAttributionOptions& options_;
  const SweepInput& into_;
  const StreamGraph& graph_;
  const WorkSteps& steps_;
  PointIndex points_;
  BoundMetric metric_;
  std::int64_t gradient_runs_ = 0;
  bool going_ = true;
};

CellScores Edges::estimated(const std::vector<std::int64_t>& rows, const std::vector<GridAxis>& axes) {
  const auto count = static_cast<std::int64_t>(rows.size());
  std::vector<at::Tensor> by_row(rows.size());  // [1, writer, reader, ...]
  CellScores made;
  made.unpatched = numberless({1, count});
  const bool all = count == into_.rows() && std::is_sorted(rows.begin(), rows.end());
  const std::int64_t most =
      all && options_.sweep.edits.empty()
          ? std::max<std::int64_t>(1, options_.sweep.tokens_per_run / into_.all().length())
          : 1;
  as_memory_allows(model_.device(), kEdgeAttribution, count, most, [&](std::int64_t begin, std::int64_t end) {
    if (!made.complete) return;
    const std::int64_t first = rows[static_cast<std::size_t>(begin)];
    const auto some = of_rows(first, first + end - begin, begin * gradients_of(options_.integration));
    made.complete = some && (going_ || end == count);
    if (!some) return;
    made.unpatched[0].slice(0, begin, end).copy_(some->scores);
    made.rows = end;
    for (std::int64_t i = begin; i < end; ++i)
      by_row[static_cast<std::size_t>(i)] = some->edges.narrow(0, i - begin, 1);
  });
  std::vector<std::int64_t> shape{1};
  for (const GridAxis& axis : axes) shape.push_back(places_on(axis));
  for (at::Tensor& row : by_row) {
    if (!row.defined()) row = numberless(shape);
  }
  made.scores = at::cat(by_row).flatten(1).unsqueeze(0);
  return made;
}

AttributionCheck Edges::check(const SweepLayout& layout, const at::Tensor& estimates,
                              const ReportChecked& report) const {
  const auto place = [](const GridAxis& axis, std::int64_t number) {
    return *axis.places[static_cast<std::size_t>(number)];
  };
  std::int64_t runs = 0;
  const auto effects = [&](std::int64_t row, const std::set<std::int64_t>& edges,
                           const ReportChecked& of_row) -> CellEffects {
    const auto readers = static_cast<std::int64_t>(graph_.reader_axis.labels.size());
    std::map<std::int64_t, std::vector<std::int64_t>> by_writer;
    for (const std::int64_t edge : edges) by_writer[edge / readers].push_back(edge % readers);
    CellEffects made{.values = numberless({std::ssize(edges)})};
    std::int64_t done = 0;  // in order, as edges are numbered by writers first
    bool going = true;
    for (const auto& [writer, of_writer] : by_writer) {
      made.complete = going;
      if (!going) break;
      PathPatchingOptions paths{.senders = {place(graph_.writer_axis, writer)},
                                .cells = PathCells::each_receiver,
                                .sweep = options_.sweep};
      for (const std::int64_t reader : of_writer)
        paths.receivers.push_back(place(graph_.reader_axis, reader));
      paths.sweep.over = {SweptAxis(Axis::batch, {layout.rows()[static_cast<std::size_t>(row)]})};
      paths.sweep.progress = [&](const SweepProgress& now) {
        going = of_row(done + now.done);
        return going;
      };
      const SweepReport patched = path_patching_report(model_, paths);
      if (!patched.failed.empty()) throw HookError(kEdgeAttribution, patched.failed.front().error);
      runs += patched.runs;
      made.values.narrow(0, done, std::ssize(of_writer))
          .copy_(patched.grid.values().flatten() - patched.unpatched.values().flatten());
      done += std::ssize(of_writer);
      made.complete = patched.complete;
      going = going && patched.complete;
    }
    return made;
  };
  AttributionCheck check = check_estimates({.estimates = estimates,
                                            .layout = layout,
                                            .count = options_.check,
                                            .seed = options_.seed,
                                            .sizes = false,
                                            .effects = effects,
                                            .report = report});
  check.runs = runs;
  return check;
}

/// The axes of all edges of a model.
CellPlan plan_of_edges(const HookedTransformer& model, const StreamGraph& graph, const SweepInput& into,
                       bool by_position) {
  CellPlan plan{.axes = {graph.writer_axis, graph.reader_axis}, .title = "Edge attribution"};
  if (!by_position) return plan;
  std::int64_t columns = into.all().length();
  const bool two_streams = model.config().has_encoder();
  if (two_streams) columns = std::max<std::int64_t>(columns, into.columns(/*of_encoder=*/true).end);
  plan.axes.push_back(numbered_axis("pos", columns));
  if (!two_streams && into.rows() == 1) name_tokens(plan.axes.back(), model, into.all().main_tokens()[0]);
  return plan;
}

}  // namespace

AttributionPatchingReport edge_attribution_report(const HookedTransformer& model,
                                                  const EdgeAttributionOptions& options) {
  require(options);
  require_source(options.sweep.from, model);
  require_free_way(model, options.sweep.hooks, options.sweep.edits);
  const ThreadLimit limit(options.sweep.threads);
  const WorkClock clock;
  const SweepInput into(model, options.sweep.into);
  const StreamGraph graph = StreamGraph::of(model);
  const CellPlan plan = plan_of_edges(model, graph, into, options.by_position);
  const SweepLayout layout(options.sweep, into, plan);
  const auto n_rows = std::ssize(layout.rows());
  const std::int64_t gradients = n_rows * gradients_of(options.integration);
  const WorkSteps steps(gradients + most_checked(options.check, n_rows * plan.cells()),
                        options.sweep.progress);
  Edges edges(model, options, into, graph, steps);
  const CellScores made = edges.estimated(layout.rows(), plan.axes);
  AttributionPatchingReport report = estimate_report(layout, made, edges.gradient_runs());
  if (options.check > 0 && edges.going()) {
    report.check = edges.check(layout, made.scores[0],
                               [&](std::int64_t cells) { return steps.done(gradients + cells); });
  }
  report.complete = made.complete && checked_whole(report, options.check);
  report.seconds = clock.seconds();
  return report;
}

Grid edge_attribution(const HookedTransformer& model, const EdgeAttributionOptions& options) {
  return edge_attribution_report(model, options).grid;
}

}  // namespace hooked
