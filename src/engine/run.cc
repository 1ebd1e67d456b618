// One run: check at the door, plan what is watched, compute, hand back.
#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "engine/loaded_model.h"
#include "engine/loss.h"
#include "engine/make_watch.h"
#include "engine/run_input.h"
#include "engine/scoped_hooks.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/engine/hooked_transformer.h"
#include "models/transformer.h"

namespace hooked {
namespace {

// The largest part of the graph that the options allow.
Reach allowed_reach(const LoadedModel& model, const RunOptions& options) {
  Reach reach = Reach::everything(model.points);
  if (options.start_at_layer) {
    reach.entry = false;
    reach.first_block = resolve_layer(*options.start_at_layer, model, "start_at_layer");
  }
  if (options.stop_at_layer) {
    reach.end_block = reach.encoder_blocks + resolve_layer(*options.stop_at_layer, model, "stop_at_layer");
    reach.exit = false;
    if (reach.end_block < reach.first_block) {
      throw ShapeError("stop_at_layer",
                       fmt::format("the run would stop at layer {} before it starts at layer {}; expected "
                                   "stop_at_layer >= start_at_layer",
                                   reach.end_block, reach.first_block));
    }
    if (options.output == Output::loss || options.logit_positions || options.gradients) {
      throw HookError("stop_at_layer",
                      "a run that stops at a layer has no logits; expected no loss, logit_positions or "
                      "gradients with stop_at_layer");
    }
  } else if (options.output == Output::residual) {
    if (options.logit_positions || options.gradients) {
      throw HookError("output",
                      "a run whose output is the residual has no logits; expected no logit_positions or "
                      "gradients with Output::residual");
    }
    reach.exit = false;
  } else if (!model.config.has_unembedding()) {
    reach.exit = false;
  }
  if (options.keep_prefix && (options.start_at_layer || options.stop_at_layer || options.gradients)) {
    throw HookError("keep_prefix",
                    "every layer must run, without gradients, for others to go on from this run; expected no "
                    "start_at_layer, stop_at_layer or gradients with keep_prefix");
  }
  return reach;
}

// A run that nobody asks an output of ends with the deepest watched block.
void shorten(Reach& reach, const Watch& watch) {
  if (watches_exit(watch)) return;
  reach.exit = false;
  reach.end_block = reach.first_block;
  for (const std::size_t point : watch.watched_points()) {
    const ActivationName& name = watch.points().name(point);
    const SiteScope scope = row(name.site).scope;
    if (scope == SiteScope::block) reach.end_block = std::max(reach.end_block, reach.block(name) + 1);
    if (scope == SiteScope::encoder_exit) reach.end_block = std::max(reach.end_block, reach.encoder_blocks);
  }
}

std::vector<std::int64_t> resolve_positions(const std::vector<std::int64_t>& positions,
                                            const RunColumns& columns) {
  std::vector<std::int64_t> resolved;
  for (const std::int64_t position : positions) {
    resolved.push_back(position < 0 ? position + columns.end : position);
    if (resolved.back() < columns.first || resolved.back() >= columns.end) {
      throw ShapeError("logit_positions",
                       fmt::format("position {} is out of range; expected {} to {}", position,
                                   columns.first == 0 ? -columns.end : columns.first, columns.end - 1));
    }
  }
  if (resolved.empty())
    throw ShapeError("logit_positions", "the list is empty; expected positions, or none for all");
  return resolved;
}

// Room for a run's columns behind a copy of its prefix.
std::shared_ptr<KvCache> room_for(const LoadedModel& model, const RunInput& input,
                                  const RunOptions& options) {
  const std::int64_t past = columns_before(options.prefix);
  auto room = std::make_shared<KvCache>(
      model.config, KvCache::Size{.batch = input.batch(), .capacity = past + input.length()}, model.device);
  if (!options.prefix) return room;
  const KvCache& before = *options.prefix->columns();
  for (std::int64_t layer = 0; layer < model.config.n_layers; ++layer) {
    const KeysAndValues columns = before.first(layer, past);
    const auto for_each_row = [&](const at::Tensor& x) {  // [batch, pos, kv_head, d_head]
      return x.expand({input.batch(), -1, -1, -1}).transpose(1, 2);
    };
    room->put(layer, for_each_row(columns.keys), for_each_row(columns.values));
  }
  const at::Tensor& real = before.real();
  room->advance(past, real.defined() ? real.expand({input.batch(), past}) : real);
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

}  // namespace

RunResult HookedTransformer::run(const at::Tensor& tokens, const RunOptions& options) const {
  const LoadedModel& model = *model_;
  const RunInput input = check_input(model, tokens, options);
  Reach reach = allowed_reach(model, options);
  if (options.gradients && !options.gradients->metric) {
    throw HookError("gradients.metric",
                    "there is no metric; expected a function of the logits to one number");
  }
  const bool wants_logits = reach.exit && options.output != Output::none;

  const std::int64_t past = columns_before(options.prefix);
  const RunColumns columns{.first = past, .end = past + input.length()};
  Watch watch = make_watch(model, {reach, columns, input.source_length()}, hooks_->snapshot(), options);
  if (options.output == Output::none && !options.gradients && !options.stop_at_layer && !options.keep_prefix)
    shorten(reach, watch);

  // Grad modes belong to the thread and are restored when the run ends, also by a throw.
  const at::AutoGradMode grad_mode(options.gradients.has_value());
  const std::shared_ptr<KvCache> kept = options.keep_prefix ? room_for(model, input, options) : nullptr;
  Run run(model.config, std::move(watch),
          {.own = {.batch = input.batch(),
                   .length = input.length(),
                   .attention_mask = input.attention_mask,
                   .device = model.device,
                   .prefix = options.prefix && !kept ? options.prefix->columns() : nullptr,
                   .extends = kept.get()},
           .token_types = input.token_types,
           .source = input.source_of_run()});
  if (!options.gradients) run.workspace = &model.workspace;
  if (options.logit_positions) {
    const auto positions = resolve_positions(*options.logit_positions, columns);
    if (options.output == Output::loss) {
      throw ShapeError("logit_positions",
                       "a loss needs the logits of all positions; expected no logit_positions");
    }
    run.set_logit_positions(positions);
    run.logit_positions = at::tensor(positions, at::kLong).sub(past).to(model.device);
  }

  at::Tensor resid;
  if (input.source) model.graph->encode(input.source->tokens, reach, run);
  if (input.tokens.defined()) {
    resid = model.graph->embed(input.tokens, run);
  } else {
    resid = input.residual;
    if (options.gradients) resid.requires_grad_(true);
    model.graph->prepare(reach, run);
  }
  resid = model.graph->blocks(std::move(resid), reach, run);

  RunResult result;
  if (reach.exit) {
    const at::Tensor logits = model.graph->unembed(resid, run);
    if (options.gradients) {
      const at::Tensor metric = require_scalar(options.gradients->metric(logits));
      result.gradients = run.take_gradients(metric);
      result.metric = metric.detach();
    }
    if (wants_logits && options.output == Output::loss) {
      result.loss =
          next_token_loss(logits.detach(), input.targets, input.attention_mask, options.loss_reduction);
    } else if (wants_logits) {
      result.logits = logits.detach();
    }
  } else if (options.output != Output::none) {
    result.residual = resid.detach();
  }
  result.cache = run.take_cache();
  if (kept) {
    kept->advance(input.length(), input.attention_mask);
    result.prefix.emplace(model_, kept);
  }
  return result;
}

RunResult HookedTransformer::run_with_cache(const at::Tensor& tokens, const Selection& capture,
                                            RunOptions options) const {
  options.capture = options.capture | capture;
  return run(tokens, options);
}

RunResult HookedTransformer::run_with_hooks(const at::Tensor& tokens, std::vector<Hook> hooks,
                                            RunOptions options) const {
  options.hooks.insert(options.hooks.end(), std::make_move_iterator(hooks.begin()),
                       std::make_move_iterator(hooks.end()));
  return run(tokens, options);
}

}  // namespace hooked
