#include "hooked/analysis/attribution_patching.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "analysis/gradients/cell_estimates.h"
#include "analysis/gradients/checked_cells.h"
#include "analysis/gradients/estimated_plan.h"
#include "analysis/gradients/gradient_run.h"
#include "analysis/patching/sweep_grid.h"
#include "analysis/runs/source_reader.h"
#include "analysis/runs/standing_edits.h"
#include "analysis/values/numberless.h"
#include "analysis/work/as_memory_allows.h"
#include "analysis/work/work_clock.h"
#include "analysis/work/work_steps.h"
#include "core/parallel.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr const char* kAttributionPatching = "attribution_patching";

/// Rows that are differentiated together, by their places among the rows that are asked for.
struct Chunk {
  std::int64_t begin, end;
};

/// The gradients that the estimates of a row take.
std::int64_t gradients_of_a_row(const ModelConfig& config, const AttributionPatchingOptions& options,
                                const CellPlan& plan) {
  auto gradients = std::ssize(options.sweep.metric) * gradients_of(options.integration);
  if (options.drop_layers) gradients *= std::ssize(DroppedLayers(config).all());
  if (options.integration.over == IntegrateOver::activations) gradients *= std::ssize(plan.patched);
  return gradients;
}

/// One estimate of all cells.
class Estimates {
 public:
  /// The work's steps begin with the gradients of all rows.
  Estimates(const HookedTransformer& model, const AttributionPatchingOptions& options, const SweepInput& into,
            const CellPlan& plan, const std::vector<std::int64_t>& rows, const WorkSteps& steps)
      : model_(model),
        options_(options),
        into_(into),
        plan_(plan),
        rows_(rows),
        steps_(steps),
        points_(model.points()),
        dropped_(model.config()),
        metrics_(bound_metrics(model, options.sweep.metric, into.all())) {
    require();
  }

  CellScores run();
  std::int64_t gradient_runs() const noexcept { return gradient_runs_; }
  /// Whether the work is to go on after them.
  bool going() const noexcept { return going_; }

 private:
  void require() const;
  /// A run and its gradients: the layer through whose additions no gradient flows; nothing: through all.
  using Pass = std::optional<BlockPlace>;
  std::int64_t rows_at_once() const;

  // False: the work ended before the last gradient, and these rows have no numbers.
  bool run_chunk(Chunk chunk);
  bool run_pass(Chunk chunk, std::size_t metric, const Pass& pass);
  bool integrate_inputs(Chunk chunk, const BoundMetric& metric, const GradientAsk& ask,
                        const TakeGradients& take);
  bool integrate_activations(Chunk chunk, const BoundMetric& metric, const GradientAsk& ask,
                             const TakeGradients& take);
  ActivationCache plain_values(Chunk chunk, const GradientAsk& ask) const;
  at::Tensor differentiate(Chunk chunk, const BoundMetric& metric, const GradientAsk& ask,
                           const TakeGradients& take);
  void estimate(const CellGroup& group, const ActivationCache& values, const ActivationCache& gradients,
                Chunk chunk, std::size_t metric, const Pass& pass);

  Input input_of(Chunk chunk) const {
    if (chunk.end - chunk.begin == rows_in_order_) return into_.all();
    return into_.of_rows(row_number(chunk.begin), row_number(chunk.end - 1) + 1);
  }
  std::int64_t row_number(std::int64_t place) const { return rows_[static_cast<std::size_t>(place)]; }
  std::vector<SweptRow> swept_rows(Chunk chunk) const {
    std::vector<SweptRow> rows;
    for (std::int64_t place = chunk.begin; place < chunk.end; ++place)
      rows.push_back(into_.row(row_number(place)));
    return rows;
  }
  RunOptions standing(Chunk chunk) const {
    return {.hooks = options_.sweep.hooks,
            .edits = edits_of_row(options_.sweep.edits, points_, into_.row(row_number(chunk.begin))),
            .threads = options_.sweep.threads};
  }
  ActivationCache row_of(const ActivationCache& cache, Chunk chunk, std::int64_t place) const {
    return chunk.end - chunk.begin == 1 ? cache : cache.row(place - chunk.begin);
  }

  const HookedTransformer& model_;
  const AttributionPatchingOptions& options_;
  const SweepInput& into_;
  const CellPlan& plan_;
  const std::vector<std::int64_t>& rows_;
  const WorkSteps& steps_;
  PointIndex points_;
  DroppedLayers dropped_;
  std::vector<BoundMetric> metrics_;
  std::int64_t rows_in_order_ = -1;  // their number, if they are all rows of `into` in their order; else -1
  CellScores scores_;
  std::int64_t gradient_runs_ = 0;  // in all
  std::int64_t runs_of_chunk_ = 0;  // of the rows that are differentiated now
  bool going_ = true;
};

void Estimates::require() const {
  const SweepOptions& sweep = options_.sweep;
  if (!sweep.partial.empty())
    throw HookError(kAttributionPatching, "estimates are not resumed; expected no `partial`");
  step_of(options_.integration, 0);
  if (options_.check < 0)
    throw HookError(kAttributionPatching,
                    fmt::format("check is {}; expected a number of cells", options_.check));
  if (options_.drop_layers && model_.config().n_layers + model_.config().n_encoder_layers() < 2)
    throw HookError(
        kAttributionPatching,
        "the model has one layer, and without it nothing is left; expected drop_layers to be false");
  for (const CellGroup& group : plan_.groups) {
    if (options_.query_key) require_query_key(group, model_, sweep);
    const bool one = group.reads.size() == 1;
    if (options_.integration.over == IntegrateOver::activations && !one)
      throw HookError(kAttributionPatching,
                      "each activation has a way of its own from one run to the other; expected cells of one "
                      "activation each, outside the experts");
  }
}

std::int64_t Estimates::rows_at_once() const {
  const bool per_row = !options_.sweep.edits.empty() || rows_in_order_ < 0 ||
                       std::any_of(plan_.patched.begin(), plan_.patched.end(),
                                   [](const ActivationName& name) { return per_expert(row(name.site)); });
  return per_row ? 1 : std::max<std::int64_t>(1, options_.sweep.tokens_per_run / into_.all().length());
}

CellScores Estimates::run() {
  const ThreadLimit limit(options_.sweep.threads);
  for (const std::int64_t row : rows_) plan_.check(into_.row(row));
  const auto n_rows = static_cast<std::int64_t>(rows_.size());
  rows_in_order_ = n_rows == into_.rows() && std::is_sorted(rows_.begin(), rows_.end()) ? n_rows : -1;
  const auto n_metrics = static_cast<std::int64_t>(metrics_.size());
  scores_.scores = numberless({n_metrics, n_rows, plan_.cells()});
  scores_.unpatched = numberless({n_metrics, n_rows});
  as_memory_allows(model_.device(), kAttributionPatching, n_rows, rows_at_once(),
                   [&](std::int64_t begin, std::int64_t end) {
                     if (!scores_.complete) return;
                     const bool whole = run_chunk({begin, end});
                     if (whole) scores_.rows = end;
                     scores_.complete = whole && (going_ || end == n_rows);
                   });
  return scores_;
}

bool Estimates::run_chunk(Chunk chunk) {
  std::vector<Pass> all{std::nullopt};
  if (options_.drop_layers) all.assign(dropped_.all().begin(), dropped_.all().end());
  const at::Tensor own = scores_.scores.slice(1, chunk.begin, chunk.end);
  own.fill_(std::numeric_limits<double>::quiet_NaN());
  runs_of_chunk_ = 0;
  bool whole = true;
  for (std::size_t metric = 0; metric < metrics_.size(); ++metric) {
    for (const Pass& pass : all) whole = whole && run_pass(chunk, metric, pass);
  }
  if (!whole) own.fill_(std::numeric_limits<double>::quiet_NaN());
  return whole;
}

bool Estimates::run_pass(Chunk chunk, std::size_t number, const Pass& pass) {
  if (!going_) return false;
  std::vector<std::int64_t> numbers;
  for (std::int64_t place = chunk.begin; place < chunk.end; ++place) numbers.push_back(row_number(place));
  const BoundMetric metric = chunk.end - chunk.begin == 1 ? metrics_[number].of_row(numbers.front())
                                                          : metrics_[number].of_rows(numbers);
  GradientAsk ask{.of = plan_.patched,
                  .keep = plan_.read,
                  .hold = options_.hold,
                  .layers_at_once = options_.layers_at_once,
                  .run = standing(chunk),
                  .skip_unread = true};
  if (options_.query_key) {
    for (const ActivationName& name : plan_.patched) {
      const AttentionWith attention(model_, name);
      ask.of.insert(ask.of.end(), attention.patterns().begin(), attention.patterns().end());
      ask.keep.insert(ask.keep.end(), attention.read().begin(), attention.read().end());
    }
  }
  if (pass) {
    const Hooks hooks = dropped_.dropping(*pass);
    ask.run.hooks.insert(ask.run.hooks.end(), hooks.begin(), hooks.end());
  }

  // What groups wait for arrives in stretches of layers.
  ActivationCache values, gradients;
  std::vector<char> done(plan_.groups.size(), 0);
  const TakeGradients take = [&](const ActivationCache& some, const ActivationCache& of_some) {
    const auto join = [](const ActivationCache& old, const ActivationCache& added) {
      if (old.empty()) return added;
      ActivationCache all = added;
      for (const ActivationCache::Entry& entry : old) all.insert(entry);
      return all;
    };
    values = join(values, some);
    gradients = join(gradients, of_some);
    bool waiting = false;
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
      const CellGroup& group = plan_.groups[g];
      const bool ready = std::all_of(group.reads.begin(), group.reads.end(),
                                     [&](const ActivationName& name) { return values.contains(name); });
      if (done[g] == 0 && ready) {
        estimate(group, values, gradients, chunk, number, pass);
        done[g] = 1;
      }
      waiting =
          waiting || (done[g] == 0 && std::any_of(group.reads.begin(), group.reads.end(),
                                                  [&](const auto& name) { return values.contains(name); }));
    }
    if (!waiting) values = gradients = ActivationCache();
  };
  at::Tensor scores;  // of the run without patches, [row]
  const IntegrateOver over = options_.integration.over;
  if (over == IntegrateOver::inputs && !integrate_inputs(chunk, metric, ask, take)) return false;
  if (over == IntegrateOver::activations && !integrate_activations(chunk, metric, ask, take)) return false;
  if (over == IntegrateOver::nothing) scores = differentiate(chunk, metric, ask, take);
  if (!scores.defined()) scores = metric(model_.run(input_of(chunk), metric.needs(standing(chunk))));
  if (stays_at_the_run(options_.integration)) require_slope(model_, metric, scores);
  scores_.unpatched[static_cast<std::int64_t>(number)].slice(0, chunk.begin, chunk.end).copy_(scores);
  return true;
}

at::Tensor Estimates::differentiate(Chunk chunk, const BoundMetric& metric, const GradientAsk& ask,
                                    const TakeGradients& take) {
  ++gradient_runs_;
  at::Tensor scores = gradient_run(model_, input_of(chunk), metric, ask, take);
  const std::int64_t before = chunk.begin * gradients_of_a_row(model_.config(), options_, plan_);
  going_ = steps_.done(before + ++runs_of_chunk_ * (chunk.end - chunk.begin));
  return scores;
}

ActivationCache Estimates::plain_values(Chunk chunk, const GradientAsk& ask) const {
  RunOptions options = standing(chunk);
  for (const auto* names : {&ask.of, &ask.keep}) {
    for (const ActivationName& name : *names) options.capture = options.capture | Selection(name);
  }
  options.output = Output::none;
  return model_.run(input_of(chunk), options).cache;
}

bool Estimates::integrate_inputs(Chunk chunk, const BoundMetric& metric, const GradientAsk& ask,
                                 const TakeGradients& take) {
  GradientAsk with_entries = ask;
  const std::vector<ActivationName> entries = InputWay::entries(model_);
  with_entries.keep.insert(with_entries.keep.end(), entries.begin(), entries.end());
  const ActivationCache values = plain_values(chunk, with_entries);
  const InputWay way(model_, options_.sweep.from, values, swept_rows(chunk));
  GradientSum gradients;
  for (std::int64_t i = 0; i < options_.integration.steps; ++i) {
    if (!going_) return false;
    GradientAsk mixed = ask;
    const Edits on_the_way = way.at(step_of(options_.integration, i));
    mixed.run.edits.insert(mixed.run.edits.end(), on_the_way.begin(), on_the_way.end());
    differentiate(chunk, metric, mixed, [&](const ActivationCache&, const ActivationCache& some) {
      gradients.add(some, 1.0 / static_cast<double>(options_.integration.steps));
    });
  }
  take(values, gradients.sum());
  return true;
}

bool Estimates::integrate_activations(Chunk chunk, const BoundMetric& metric, const GradientAsk& ask,
                                      const TakeGradients& take) {
  const ActivationCache values = plain_values(chunk, ask);
  GradientSum gradients;
  for (const ActivationName& name : plan_.patched) {
    const at::Tensor here = values[Address(name)];
    at::Tensor there = whole_values(options_.sweep.from, name, here, swept_rows(chunk));
    // Also between the two runs: keys that may not be attended to have no share of a pattern.
    if (const auto scores = scores_behind(name))
      there = at::where(values[Address(*scores)].eq(row(scores->site).unseen), here, there);
    GradientAsk mixed = ask;
    mixed.of = {name};
    mixed.keep.clear();
    if (options_.query_key) {
      const std::vector<ActivationName> patterns = AttentionWith(model_, name).patterns();
      mixed.of.insert(mixed.of.end(), patterns.begin(), patterns.end());
    }
    for (std::int64_t i = 0; i < options_.integration.steps; ++i) {
      if (!going_) return false;
      mixed.run.edits = ask.run.edits;
      const at::Tensor between = here + (there - here) * step_of(options_.integration, i);
      // Where both are -inf there is no way between them.
      mixed.run.edits.push_back(set(Address(name), at::where(here.eq(there), here, between)));
      differentiate(chunk, metric, mixed, [&](const ActivationCache&, const ActivationCache& some) {
        gradients.add(some, 1.0 / static_cast<double>(options_.integration.steps));
      });
    }
  }
  take(values, gradients.sum());
  return true;
}

void Estimates::estimate(const CellGroup& group, const ActivationCache& values,
                         const ActivationCache& gradients, Chunk chunk, std::size_t metric,
                         const Pass& pass) {
  for (std::int64_t place = chunk.begin; place < chunk.end; ++place) {
    const SweptRow row = into_.row(row_number(place));
    RunResult unpatched;
    unpatched.cache = row_of(values, chunk, place);
    const PatchedRuns runs(model_, into_.of_row(row.number, /*with_padding_behind=*/true),
                           {.run = standing({place, place + 1})}, std::move(unpatched));
    const ActivationCache own = row_of(gradients, chunk, place);
    const CellPatches made = group.patches(runs, row);
    const at::Tensor numbers =
        options_.query_key ? through_patterns(made, AttentionWith(model_, group.reads.front()), runs, own)
                           : first_order(made, runs, own);
    double* const scores =
        scores_.scores[static_cast<std::int64_t>(metric)][place].mutable_data_ptr<double>();
    for (std::size_t i = 0; i < made.cells.size(); ++i) {
      const double number = numbers[static_cast<std::int64_t>(i)].item<double>();
      double& score = scores[made.cells[i]];
      if (!pass) {
        score = number;
      } else {
        const double share = dropped_.share_without(*pass, made.patches[i]);
        score = (std::isnan(score) ? 0.0 : score) + (share > 0 ? share * std::abs(number) : 0.0);
      }
    }
  }
}

}  // namespace

AttributionPatchingReport estimated(const HookedTransformer& model, const AttributionPatchingOptions& options,
                                    const SweepOptions& named, const SweepInput& into, CellPlan plan) {
  const WorkClock clock;
  require_source(named.from, model);
  plan.title = "Attribution p" + plan.title.substr(1);
  const SweepLayout layout(named, into, plan);
  const auto n_rows = std::ssize(layout.rows());
  const std::int64_t gradients = n_rows * gradients_of_a_row(model.config(), options, plan);
  const WorkSteps steps(gradients + most_checked(options.check, n_rows * plan.cells()), named.progress);
  Estimates estimates(model, options, into, plan, layout.rows(), steps);
  const CellScores made = estimates.run();
  AttributionPatchingReport report = estimate_report(layout, made, estimates.gradient_runs());
  if (options.check > 0 && estimates.going()) {
    report.check = check_cells(model, options,
                               {.into = into,
                                .plan = plan,
                                .layout = layout,
                                .estimates = made.scores[0],
                                .report = [&](std::int64_t cells) { return steps.done(gradients + cells); }});
  }
  report.complete = made.complete && checked_whole(report, options.check);
  report.seconds = clock.seconds();
  return report;
}

AttributionPatchingReport attribution_patching_report(const HookedTransformer& model,
                                                      const AttributionPatchingOptions& options) {
  const SweepInput into(model, options.sweep.into);
  return estimated(model, options, options.sweep, into, make_plan(model, options.sweep, into));
}

Grid attribution_patching(const HookedTransformer& model, const AttributionPatchingOptions& options) {
  return attribution_patching_report(model, options).grid;
}

AttributionPatchingReport attribution_patching_report(const HookedTransformer& model,
                                                      const PatchingPreset& preset,
                                                      const AttributionPatchingOptions& options) {
  const SweepInput into(model, options.sweep.into);
  return estimated(model, options, rows_alone(options.sweep), into,
                   plan_of_preset(model, preset, options.sweep, into));
}

Grid attribution_patching(const HookedTransformer& model, const PatchingPreset& preset,
                          const AttributionPatchingOptions& options) {
  return attribution_patching_report(model, preset, options).grid;
}

}  // namespace hooked
