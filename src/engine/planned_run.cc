// What a run is asked for, checked before anything runs.
#include "engine/planned_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/run_input.h"
#include "hooked/core/error.h"
#include "hooks/model_of.h"
#include "hooks/padded_places.h"
#include "loading/fill/device.h"
#include "models/transformer/transformer.h"

namespace hooked {
namespace {

// The part of the graph that the input and the options allow.
Reach allowed_reach(const LoadedModel& model, const Input& input, const RunOptions& options) {
  Reach reach = reach_of(model, input);
  if (options.stop_at_layer) {
    reach.end_block = resolve_layer(*options.stop_at_layer, model.config, "stop_at_layer");
    reach.exit = false;
    if (reach.end_block < reach.first_block) {
      throw ShapeError("stop_at_layer",
                       fmt::format("the run would stop at layer {} before it starts at layer {}; expected "
                                   "stop_at_layer >= start_at_layer",
                                   reach.end_block, reach.first_block));
    }
    if (options.output == Output::loss || options.logit_positions || options.logit_tokens ||
        (options.gradients && options.gradients->metric)) {
      throw HookError("stop_at_layer",
                      "a run that stops at a layer has no logits; expected no loss, logit_positions, "
                      "logit_tokens or gradients of logits with stop_at_layer");
    }
  } else if (options.output == Output::residual) {
    if (options.logit_positions || options.logit_tokens || options.gradients) {
      throw HookError("output",
                      "a run whose output is the residual has no logits; expected no logit_positions, "
                      "logit_tokens or gradients with it");
    }
    if (model.config.has_unembedding()) reach.exit = false;
  }
  if (const std::int64_t last = model.config.last_start(reach.first_block, reach.end_block);
      last < reach.first_block) {
    throw ShapeError("start_at_layer",
                     fmt::format("later layers attend with the keys and values of layer {}, which a run from "
                                 "layer {} on does not make; expected at most {}, or {}",
                                 last, reach.first_block, last, model.config.n_layers));
  }
  if (options.keep_prefix &&
      (input.start || options.stop_at_layer || options.gradients || options.differentiable)) {
    throw HookError("keep_prefix",
                    "every layer must run, without gradients, for others to go on from this run; expected no "
                    "start_at_layer, stop_at_layer, gradients or differentiable with keep_prefix");
  }
  if (options.differentiable && options.gradients) {
    throw HookError("differentiable",
                    "a run that takes gradients itself uses its graph up; expected one of gradients and "
                    "differentiable");
  }
  return reach;
}

std::vector<std::int64_t> resolve_positions(const std::vector<std::int64_t>& positions,
                                            const RunColumns& columns, const char* where) {
  std::vector<std::int64_t> resolved;
  for (const std::int64_t position : positions) {
    resolved.push_back(position < 0 ? position + columns.end : position);
    if (resolved.back() < columns.first || resolved.back() >= columns.end) {
      throw ShapeError(where,
                       fmt::format("position {} is out of range; expected {} to {}", position,
                                   columns.first == 0 ? -columns.end : columns.first, columns.end - 1));
    }
  }
  if (resolved.empty()) throw ShapeError(where, "the list is empty; expected positions, or none for all");
  return resolved;
}

// Throws ShapeError if a position that counts from the end is padding in some row: callers that give one mean
// the end of a row's tokens.
void refuse_padding(const std::vector<std::int64_t>& positions, const RunColumns& columns,
                    const char* where) {
  if (!columns.mask.defined()) return;
  for (const std::int64_t position : positions) {
    const std::int64_t column = position + columns.end - columns.first;
    if (position >= 0 || column < 0) continue;  // out of range is reported elsewhere
    const at::Tensor real = columns.mask.select(1, column);
    if (real.all().item<bool>()) continue;
    const auto row = real.to(at::kLong).argmin(0).item<std::int64_t>();
    throw ShapeError(where,
                     fmt::format("position {} is padding in row {}, whose last token is at {}; expected the "
                                 "last token of every row; pad on the left, or give positions from 0 on",
                                 position, row, columns.last[row].item<std::int64_t>()));
  }
}

// The columns that the metric declares; none without a metric, or if it declares none.
std::vector<std::int64_t> metric_columns(const RunOptions& options, const RunColumns& columns) {
  if (!options.gradients) return {};
  const LogitMetric& metric = options.gradients->metric;
  if (static_cast<bool>(metric) == static_cast<bool>(options.gradients->of_run)) {
    throw HookError("gradients.metric",
                    metric ? "there are two metrics; expected `metric` or `of_run`"
                           : "there is no metric; expected a function of the logits to one number");
  }
  if (metric.positions().empty()) return {};
  refuse_padding(metric.positions(), columns, "gradients.metric");
  return resolve_positions(metric.positions(), columns, "gradients.metric");
}

// A run that skips positions puts what is computed back to its position, so each may occur only once.
void require_each_once(const std::vector<std::int64_t>& positions) {
  for (auto p = positions.begin(); p != positions.end(); ++p) {
    if (std::find(positions.begin(), p, *p) == p) continue;
    throw ShapeError("gradients.skip_unread",
                     fmt::format("position {} is asked for twice; expected each logit position once", *p));
  }
}

// Throws for what a run whose rows have different first columns cannot do.
void require_ragged(const Input& input, const RunOptions& options, const RunExtent& extent,
                    const WatchPlan& plan) {
  constexpr const char* where = "first_columns";
  if (options.gradients || options.differentiable || options.keep_prefix || options.output == Output::loss) {
    throw HookError(
        where,
        "rows that begin at columns of their own have no gradients, loss or prefix; expected none of "
        "them to be asked for");
  }
  for (const std::size_t point : plan.watched_points()) {
    const ActivationName& name = plan.points().name(point);
    if (RaggedRows::can_show(name.site)) continue;
    throw HookError(
        name.to_string(),
        "this activation is not one of rows and positions, so that it cannot be watched where rows "
        "begin at columns of their own; expected another activation, or a run for each first "
        "column");
  }
  if (!extent.logit_positions) return;
  for (const std::int64_t position : *extent.logit_positions) {
    for (std::size_t r = 0; r < input.first_columns.size(); ++r) {
      if (input.first_columns[r] <= position) continue;
      throw ShapeError("logit_positions",
                       fmt::format("row {} begins at column {}, after position {}; expected positions that "
                                   "every row has",
                                   r, input.first_columns[r], position));
    }
  }
}

void require_tokens(const std::vector<std::int64_t>& tokens, const ModelConfig& config,
                    const RunOptions& options) {
  constexpr const char* where = "logit_tokens";
  if (options.output == Output::loss) {
    throw ShapeError(where, "a loss needs the logits of all tokens; expected no logit_tokens");
  }
  if (options.gradients && options.gradients->metric) {
    throw HookError(where,
                    "a metric of the logits is given those of all tokens; expected no logit_tokens, or "
                    "gradients `of_run`, whose function gets what the run computes");
  }
  if (options.output == Output::none && !options.gradients) {
    throw HookError(where, "this run computes no logits; expected no logit_tokens, or the output `logits`");
  }
  if (tokens.empty()) throw ShapeError(where, "no token is given; expected at least one");
  for (const std::int64_t token : tokens) {
    if (token >= 0 && token < config.d_vocab_out()) continue;
    throw ShapeError(where, fmt::format("token {} is not in the vocabulary; expected 0 to {}", token,
                                        config.d_vocab_out() - 1));
  }
}

// Throws if a function of the run takes other logits than the run computes.
void require_logits_of(const RunMetric& metric, const RunExtent& extent, const RunOptions& options) {
  const bool columns = metric.logit_positions && metric.logit_positions != extent.logit_positions;
  if (!columns && (!metric.logit_tokens || metric.logit_tokens == options.logit_tokens)) return;
  throw HookError("gradients.of_run",
                  fmt::format("the metric takes the logits of other {} than the run computes; expected the "
                              "run to have the metric's own {}, as its needs() set them",
                              columns ? "columns" : "tokens", columns ? "logit_positions" : "logit_tokens"));
}

// The columns whose logits are computed; nothing for all of them.
std::optional<std::vector<std::int64_t>> asked_columns(const RunOptions& options, const RunExtent& extent,
                                                       const std::vector<std::int64_t>& metric_columns) {
  if (options.logit_positions) {
    auto asked = resolve_positions(*options.logit_positions, extent.columns, "logit_positions");
    // require_ragged() reports columns that are not a row's own.
    if (!extent.ragged) refuse_padding(*options.logit_positions, extent.columns, "logit_positions");
    if (options.output == Output::loss) {
      throw ShapeError("logit_positions",
                       "a loss needs the logits of all positions; expected no logit_positions");
    }
    return asked;
  }
  if (metric_columns.empty() || options.output == Output::loss) return std::nullopt;
  std::vector<std::int64_t> once;  // a metric may read a position twice
  for (const std::int64_t column : metric_columns) {
    if (std::find(once.begin(), once.end(), column) == once.end()) once.push_back(column);
  }
  return once;
}

}  // namespace

std::shared_ptr<const WatchPlan> make_plan(const LoadedModel& model, const Reach& reach, const Hooks& scoped,
                                           const RunOptions& options) {
  Kept kept{.positions = options.keep.positions,
            .attached = options.differentiable,
            .unread_as_zeros = options.gradients && options.gradients->skip_unread};
  if (!options.keep.device.empty()) kept.device = open_device(options.keep.device);
  if (kept.device && kept.device->is_cpu() && !kept.attached) kept.transport = model.transport;
  auto plan = std::make_shared<WatchPlan>(model.points, reach, std::move(kept), model.placement);
  for (const Hooks* hooks : {&scoped, &options.hooks}) {
    for (const Hook& hook : *hooks) {
      if (hook.direction == HookDirection::backward && !options.gradients) {
        throw HookError(
            "hooks",
            "a backward hook needs a metric to differentiate; expected `gradients` among the run's options");
      }
      plan->add_hook(hook);
    }
  }
  const ReadingModel own{model.identity(), model.config};
  for (const Edit& edit : options.edits) {
    if (edit.source) {
      for (const std::size_t point : edited_points(edit.target, model.points, reach))
        require_own(own, *edit.source, model.points.name(point));
    }
    plan->add_edit(edit);
  }
  plan->add_dictionaries(model.dictionaries);
  plan->add_capture(options.capture);
  if (options.gradients) {
    plan->add_gradients(options.gradients->of);
    plan->add_readings(options.gradients->of_run.reads);
  }
  return plan;
}

RunExtent with_numbers_of(const LoadedModel& model, const Input& input, RunExtent extent) {
  RunExtent own = extent_of(input, extent.columns);
  extent.columns = std::move(own.columns);
  extent.encoder = std::move(own.encoder);
  extent.ragged = ragged_rows(model, input);
  extent.columns.set_mask(extent.ragged ? extent.ragged->own() : input.main_mask());
  if (!model.dictionaries.empty()) extent.tokens = input.start ? input.start->tokens : input.main_tokens();
  return extent;
}

PlannedRun plan_run(const LoadedModel& model, const Input& given, const RunOptions& options,
                    const Hooks& attached) {
  require_output(model.config, options);
  PlannedRun run{.model = model,
                 .options = options,
                 .input = check_input(model, given),
                 .targets = {},
                 .reach = {},
                 .extent = {},
                 .metric_columns = {},
                 .plan = nullptr};
  if (!run.input.first_columns.empty() && model.config.delta_net) {
    throw HookError("first_columns",
                    "this model's recurrent layers know one state after the prefix; expected rows that all "
                    "begin there, without first_columns");
  }
  run.targets = check_targets(model, run.input, options);
  run.reach = allowed_reach(model, run.input, options);
  const std::int64_t past = run.input.first_column();
  run.extent =
      with_numbers_of(model, run.input, {.columns = {.first = past, .end = past + run.input.length()}});
  run.metric_columns = metric_columns(options, run.extent.columns);
  run.extent.logit_positions = asked_columns(options, run.extent, run.metric_columns);
  if (options.gradients && options.gradients->skip_unread && run.extent.logit_positions)
    require_each_once(*run.extent.logit_positions);
  if (options.logit_tokens) require_tokens(*options.logit_tokens, model.config, options);
  if (options.gradients) require_logits_of(options.gradients->of_run, run.extent, options);
  run.plan = make_plan(model, run.reach, attached, options);
  if (run.extent.ragged) require_ragged(run.input, options, run.extent, *run.plan);
  require_no_padding(*run.plan, run.extent);
  run.extent.ends_with_last_point =
      options.output == Output::none && !options.gradients && !options.stop_at_layer && !options.keep_prefix;
  return run;
}

}  // namespace hooked
