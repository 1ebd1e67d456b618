// One run: check at the door, plan what is watched, compute, hand back.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "core/parallel.h"
#include "core/places_among.h"
#include "core/to_device.h"
#include "engine/cache_origin.h"
#include "engine/make_plan.h"
#include "engine/model_memory.h"
#include "engine/model_text.h"
#include "engine/recorded_run.h"
#include "engine/run_input.h"
#include "engine/scoped_hooks.h"
#include "hooked/core/error.h"
#include "hooked/core/kernel_set.h"
#include "hooked/core/tensor_text.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/engine/loss.h"
#include "hooks/host_transport.h"
#include "hooks/padded_places.h"
#include "loading/loaded_model.h"
#include "loading/tokenizer_files.h"
#include "models/transformer.h"

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
                      "logit_tokens or gradients with Output::residual");
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
  if (options.keep_prefix && (input.start || options.stop_at_layer || options.gradients)) {
    throw HookError("keep_prefix",
                    "every layer must run, without gradients, for others to go on from this run; expected no "
                    "start_at_layer, stop_at_layer or gradients with keep_prefix");
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

// Throws ShapeError where a position that counts from the end is padding in some row: whoever gives one means
// the end of a row's tokens.
void refuse_padding(const std::vector<std::int64_t>& positions, const RunColumns& columns,
                    const char* where) {
  if (!columns.mask.defined()) return;
  for (const std::int64_t position : positions) {
    const std::int64_t column = position + columns.end - columns.first;
    if (position >= 0 || column < 0) continue;  // out of range is told elsewhere
    const at::Tensor real = columns.mask.select(1, column);
    if (real.all().item<bool>()) continue;
    const auto row = real.to(at::kLong).argmin(0).item<std::int64_t>();
    throw ShapeError(where,
                     fmt::format("position {} is padding in row {}, whose last token is at {}; expected the "
                                 "last token of every row; pad on the left, or give positions from 0 on",
                                 position, row, columns.last[row].item<std::int64_t>()));
  }
}

// Room for a run's columns behind a copy of its prefix.
KvCache room_for(const LoadedModel& model, const Input& input) {
  const std::int64_t past = input.first_column();
  KvCache room(model.config.n_layers, {.batch = input.batch(), .capacity = past + input.length()});
  if (input.prefix) room.take_over(*input.prefix->columns());
  return room;
}

at::Tensor require_scalar(const at::Tensor& metric) {
  if (!metric.defined() || metric.numel() != 1) {
    throw HookError("gradients.metric",
                    fmt::format("the metric must be one number; expected a scalar, got {}",
                                metric.defined() ? shape_text(metric.sizes()) : "an undefined tensor"));
  }
  return metric.reshape({});
}

// The columns that the metric declares; none where there is no metric, or it declares none.
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

// Whoever leaves out positions puts what is computed back to its place, of which there is one.
void require_each_once(const std::vector<std::int64_t>& positions) {
  for (auto p = positions.begin(); p != positions.end(); ++p) {
    if (std::find(positions.begin(), p, *p) == p) continue;
    throw ShapeError("gradients.skip_unread",
                     fmt::format("position {} is asked for twice; expected each logit position once", *p));
  }
}

// Throws for what a run of rows with first columns of their own cannot do.
void require_ragged(const Input& input, const RunOptions& options, const RunExtent& extent,
                    const WatchPlan& plan) {
  constexpr const char* where = "first_columns";
  if (options.gradients || options.keep_prefix || options.output == Output::loss) {
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
                       fmt::format("row {} begins at column {}, behind position {}; expected positions that "
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
                    "GradientRequest::of_run, whose function gets what the run computes");
  }
  if (options.output == Output::none && !options.gradients) {
    throw HookError(where, "this run computes no logits; expected no logit_tokens, or Output::logits");
  }
  if (tokens.empty()) throw ShapeError(where, "no token is given; expected at least one");
  for (const std::int64_t token : tokens) {
    if (token >= 0 && token < config.d_vocab_out()) continue;
    throw ShapeError(where, fmt::format("token {} is not in the vocabulary; expected 0 to {}", token,
                                        config.d_vocab_out() - 1));
  }
}

// The logits at `wanted` columns, out of those that the run computed.
at::Tensor logits_at(const std::vector<std::int64_t>& wanted, const at::Tensor& logits,
                     const RunExtent& extent) {
  if (extent.logit_positions == wanted) return logits;
  std::vector<std::int64_t> places = wanted;
  if (extent.logit_positions) {
    places = places_among(wanted, *extent.logit_positions);
    if (const auto absent = std::find(places.begin(), places.end(), -1); absent != places.end()) {
      throw HookError(
          "gradients.metric",
          fmt::format("the metric reads the logits at position {}, which are not computed; add it "
                      "to logit_positions or leave these out",
                      wanted[static_cast<std::size_t>(absent - places.begin())]));
    }
  } else {
    for (std::int64_t& place : places) place -= extent.columns.first;
  }
  return logits.index_select(1, to_device(places, logits.device()));
}

// Throws where a function of the run takes other logits than the run computes.
void require_logits_of(const RunMetric& metric, const RunExtent& extent, const RunOptions& options) {
  const bool columns = metric.logit_positions && metric.logit_positions != extent.logit_positions;
  if (!columns && (!metric.logit_tokens || metric.logit_tokens == options.logit_tokens)) return;
  throw HookError("gradients.of_run",
                  fmt::format("the metric takes the logits of other {} than the run computes; expected the "
                              "run to have the metric's own {}, as its needs() set them",
                              columns ? "columns" : "tokens", columns ? "logit_positions" : "logit_tokens"));
}

// What a loss may hold of logits at a time: 32 MiB in float32.
constexpr std::int64_t kLogitsAtOnce = std::int64_t{1} << 23;

// The loss of the stream behind the last block, of a few columns' logits at a time.
at::Tensor loss_in_parts(const LoadedModel& model, const at::Tensor& stream, const at::Tensor& targets,
                         const at::Tensor& real, LossReduction reduction, Run& run) {
  const std::int64_t predictions = stream.size(1) - 1;
  const std::int64_t at_once =
      std::max<std::int64_t>(1, kLogitsAtOnce / (stream.size(0) * model.config.d_vocab_out()));
  std::vector<at::Tensor> log_probs;
  for (std::int64_t first = 0; first < predictions; first += at_once) {
    const std::int64_t end = std::min(first + at_once, predictions);
    const at::Tensor columns = at::arange(first, end, at::TensorOptions(at::kLong).device(stream.device()));
    log_probs.push_back(
        token_log_probs(model.graph->exit(stream, columns, {}, run), targets.slice(1, first + 1, end + 1)));
  }
  return reduced_loss(-at::cat(log_probs, 1), real, reduction);
}

}  // namespace

RunResult HookedTransformer::run(const Input& input, const RunOptions& options) const {
  const Again again = options.hooks.empty() && hooks_->empty() ? Again::allowed : Again::refused;
  return with_memory(memory_of(*model_, kRunDoor, again), [&] { return run_once(input, options); });
}

RunResult HookedTransformer::run_once(const Input& given, const RunOptions& options) const {
  const LoadedModel& model = *model_;
  const ThreadLimit limit(options.threads);
  require_output(model.config, options);
  const Input input = check_input(model, given);
  if (!input.first_columns.empty() && model.config.delta_net) {
    throw HookError("first_columns",
                    "this model's recurrent layers know one state behind the prefix; expected rows that all "
                    "begin there, without first_columns");
  }
  const at::Tensor targets = check_targets(model, input, options);
  const Reach reach = allowed_reach(model, input, options);
  const std::int64_t past = input.first_column();
  // What an extent has of the numbers of an input.
  const auto put_numbers = [&](const Input& read, RunExtent& into) {
    into.encoder = extent_of(read, into.columns).encoder;
    into.ragged = ragged_rows(model, read);
    into.columns.set_mask(into.ragged ? into.ragged->own() : read.main_mask());
  };
  RunExtent extent{.columns = {.first = past, .end = past + input.length()}};
  put_numbers(input, extent);
  const std::vector<std::int64_t> metric_reads = metric_columns(options, extent.columns);
  if (options.logit_positions) {
    extent.logit_positions = resolve_positions(*options.logit_positions, extent.columns, "logit_positions");
    // Columns that are not a row's own are told below.
    if (!extent.ragged) refuse_padding(*options.logit_positions, extent.columns, "logit_positions");
    if (options.output == Output::loss) {
      throw ShapeError("logit_positions",
                       "a loss needs the logits of all positions; expected no logit_positions");
    }
  } else if (!metric_reads.empty() && options.output != Output::loss) {
    std::vector<std::int64_t> once;  // a metric may read a position twice
    for (const std::int64_t column : metric_reads) {
      if (std::find(once.begin(), once.end(), column) == once.end()) once.push_back(column);
    }
    extent.logit_positions = once;
  }
  if (options.gradients && options.gradients->skip_unread && extent.logit_positions)
    require_each_once(*extent.logit_positions);
  if (options.logit_tokens) require_tokens(*options.logit_tokens, model.config, options);
  if (options.gradients) require_logits_of(options.gradients->of_run, extent, options);
  const auto plan = make_plan(model, reach, hooks_->snapshot(), options);
  if (extent.ragged) require_ragged(input, options, extent, *plan);
  require_no_padding(*plan, extent);
  extent.ends_with_last_point =
      options.output == Output::none && !options.gradients && !options.stop_at_layer && !options.keep_prefix;

  // Grad modes belong to the thread and are restored when the run ends, also by a throw.
  const at::AutoGradMode grad_mode(options.gradients.has_value());
  std::optional<KvCache> kept;  // what the run leaves to others
  const auto started = [&](const Input& read, const std::shared_ptr<const WatchPlan>& watched,
                           const RunExtent& computed) {
    if (options.keep_prefix) kept = room_for(model, read);
    return Run{
        .watch = Watch(watched, computed),
        .sequence = Sequence(model.config, model.config.main_stack(),
                             {.batch = read.batch(),
                              .length = read.length(),
                              .attention_mask = read.main_mask(),
                              .device = model.main_device(),
                              .prefix = read.prefix && !kept ? read.prefix->columns() : nullptr,
                              .ragged = computed.ragged,
                              .cache = kept ? &*kept : nullptr}),
        .encoder_sequence = encoder_sequence(model, read),
        .token_types = read.token_types,
        .workspace = options.gradients && kernel_set() == KernelSet::plain ? nullptr : &model.workspace};
  };
  // A metric reads the logits beside the loss.
  const bool makes_loss = options.output == Output::loss && !options.gradients;
  const bool in_parts = makes_loss && !plan->watches_exit();
  const auto output_of = [&](const Input& read, const at::Tensor& predicted, const at::Tensor& logit_tokens,
                             Run& run) -> at::Tensor {
    if (run.watch.is_over()) return {};
    GraphInput from = graph_input(read);
    if (extent.logit_positions) {
      from.logit_columns = to_device(at::tensor(*extent.logit_positions, at::kLong).sub(past), model.device);
    }
    from.logit_tokens = logit_tokens;
    try {
      const auto [residual, asked] = model.graph->stream(from, reach, run);
      if (!reach.exit) return residual;
      if (in_parts)
        return loss_in_parts(model, residual, predicted, read.main_mask(), options.loss.reduction, run);
      at::Tensor logits = model.graph->exit(residual, asked, from.logit_tokens, run);
      return makes_loss ? next_token_loss(logits, predicted, read.main_mask(), options.loss.reduction)
                        : logits;
    } catch (const LastPointPassed&) {
      return {};
    }
  };

  RunResult result;
  at::Tensor output;
  RunKey key;
  if (!options.eager) {
    key = model.recordings ? run_key(model, given, input, options, reach, extent, plan)
                           : RunKey{{}, model.recording_problem};
  }
  std::string& refusal = key.refusal;
  if (!key.key.empty()) {
    RunOptions asked_for = options;
    asked_for.loss.targets = targets;
    const RunTensors tensors(model, input, asked_for, key.places);
    const auto work = [&](const std::vector<at::Tensor>& given_now) -> Computed {
      Input read = input;
      RunOptions with = asked_for;
      const RunTensors::Numbers numbers = tensors.put(given_now, read, with);
      RunExtent recorded = extent;
      recorded.keeps_here = true;
      put_numbers(read, recorded);
      Run run = started(read, are_the_same(given_now, tensors.all) ? plan : make_plan(model, reach, {}, with),
                        recorded);
      if (numbers.edit_places.defined()) run.watch.put_places(numbers.edit_places);
      at::Tensor made = output_of(read, with.loss.targets, numbers.logit_tokens, run);
      if (kept) kept->advance(read.length(), read.main_mask());
      return {std::move(made), run.watch.take_cache(), std::move(kept)};
    };
    Computed computed = model.recordings->run(
        {.key = std::move(key.key), .inputs = tensors.all, .frozen = tensors.frozen}, work, refusal);
    output = std::move(computed.output);
    result.cache = std::move(computed.cache);
    kept = std::move(computed.columns);
    if (const Kept& asked = plan->kept(); asked.transport) {
      send_to_host(result.cache, *asked.transport);
    } else if (asked.device) {
      result.cache = result.cache.to(*asked.device);
    }
  } else {
    Run run = started(input, plan, extent);
    const at::Tensor logit_tokens =
        options.logit_tokens ? to_device(*options.logit_tokens, model.device) : at::Tensor();
    output = output_of(input, targets, logit_tokens, run);
    if (kept) kept->advance(input.length(), input.main_mask());
    if (options.gradients) {
      const GradientRequest& asked = *options.gradients;
      const at::Tensor read = metric_reads.empty() ? output : logits_at(metric_reads, output, extent);
      const at::Tensor metric =
          require_scalar(asked.of_run ? asked.of_run.function(output, run.watch.live()) : asked.metric(read));
      result.gradients = run.watch.take_gradients(metric);
      result.metric_ = metric.detach();
    }
    result.cache = run.watch.take_cache();
  }
  for (ActivationCache* made : {&result.cache, &result.gradients})
    set_origin(*made, model, {given, input}, *plan);
  if (given.text) {
    if (auto note = bos_note(tokenizer_of(model), model.config)) result.notes.push_back(*std::move(note));
  }
  if (!refusal.empty()) result.notes.push_back(fmt::format("computed kernel by kernel: {}", refusal));
  if (options.output == Output::loss) {
    result.kind_ = Output::loss;
    result.output_ =
        makes_loss ? output
                   : next_token_loss(output.detach(), targets, input.main_mask(), options.loss.reduction);
  } else if (options.output != Output::none) {
    result.kind_ = reach.exit && model.config.has_unembedding() ? Output::logits : Output::residual;
    result.output_ = output.detach();
    if (result.kind_ == Output::logits) {
      result.logit_positions_ = extent.logit_positions;
      result.logit_tokens_ = options.logit_tokens;
    }
  }
  result.columns_ = extent.columns.tokens();
  if (result.columns_.mask.defined() && result.cache.tokens() && result.cache.tokens()->mask.defined())
    result.columns_.mask = result.cache.tokens()->mask;  // which may be on the host
  result.model_dtype_ = model.config.dtype;
  if (model.device.is_cpu()) {
    if (const auto found = result.not_finite()) result.notes.push_back(found->text());
  }
  if (kept) result.prefix.emplace(loaded(), std::make_shared<const KvCache>(*std::move(kept)));
  return result;
}

CachedRun HookedTransformer::run_with_cache(const Input& input, const Selection& capture,
                                            RunOptions options) const {
  options.capture = options.capture | capture;
  return {run(input, options)};
}

RunResult HookedTransformer::run_with_hooks(const Input& input, std::vector<Hook> hooks,
                                            RunOptions options) const {
  options.hooks.insert(options.hooks.end(), std::make_move_iterator(hooks.begin()),
                       std::make_move_iterator(hooks.end()));
  return run(input, options);
}

}  // namespace hooked
