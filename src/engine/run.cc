// One run: planned, computed or replayed, and returned.
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

#include "core/id_list.h"
#include "core/parallel.h"
#include "core/to_device.h"
#include "engine/cache_origin.h"
#include "engine/model_memory.h"
#include "engine/model_text.h"
#include "engine/planned_run.h"
#include "engine/recorded_run.h"
#include "engine/run_input.h"
#include "engine/scoped_hooks.h"
#include "hooked/core/error.h"
#include "hooked/core/kernel_set.h"
#include "hooked/core/tensor_text.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/engine/loss.h"
#include "hooks/host_transport.h"
#include "loading/config/tokenizer_files.h"
#include "loading/fill/loaded_model.h"
#include "models/transformer/transformer.h"

namespace hooked {
namespace {

// Room for a run's columns after a copy of its prefix.
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

// The logits at `wanted` columns, taken from those that the run computed.
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

// The number of logits that a loss may hold at a time: 32 MiB in float32.
constexpr std::int64_t kLogitsAtOnce = std::int64_t{1} << 23;

// The loss from the stream after the last block, computed from a few columns' logits at a time.
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

// The results of a run.
struct Made {
  Computed computed;
  ActivationCache gradients = {};
  at::Tensor metric = {};
  std::string refusal = {};  // why it was not recorded
};

// A run that begins, with the input and plan of a recording or the planned ones.
Run started(const PlannedRun& planned, const Input& input, std::shared_ptr<const WatchPlan> plan,
            const RunExtent& extent, std::optional<KvCache>& kept) {
  const LoadedModel& model = planned.model;
  if (planned.options.keep_prefix) kept = room_for(model, input);
  return {.watch = Watch(std::move(plan), extent),
          .sequence = Sequence(model.config, model.config.main_stack(),
                               {.batch = input.batch(),
                                .length = input.length(),
                                .attention_mask = input.main_mask(),
                                .device = model.main_device(),
                                .prefix = input.prefix && !kept ? input.prefix->columns() : nullptr,
                                .ragged = extent.ragged,
                                .cache = kept ? &*kept : nullptr}),
          .encoder_sequence = encoder_sequence(model, input),
          .token_types = input.token_types,
          .workspace = (planned.options.gradients || planned.options.differentiable) &&
                               kernel_set() == KernelSet::plain
                           ? nullptr
                           : &model.workspace};
}

// What such a run reads: its input, what a loss compares with, and the tokens whose logits are asked for.
struct RunReads {
  const Input& input;
  const at::Tensor& targets;
  const at::Tensor& logit_tokens;
};

// Its output; undefined if it ends with its last watched point.
at::Tensor output_of(const PlannedRun& planned, const RunReads& reads, Run& run) {
  if (run.watch.is_over()) return {};
  const LoadedModel& model = planned.model;
  const LossReduction reduction = planned.options.loss.reduction;
  GraphInput from = graph_input(reads.input);
  if (const auto& asked = planned.extent.logit_positions) {
    from.logit_columns =
        to_device(at::tensor(*asked, at::kLong).sub(planned.extent.columns.first), model.device);
  }
  from.logit_tokens = reads.logit_tokens;
  try {
    const auto [residual, asked] = model.graph->stream(from, planned.reach, run);
    if (!planned.reach.exit) return residual;
    if (planned.makes_loss() && !planned.plan->watches_exit())
      return loss_in_parts(model, residual, reads.targets, reads.input.main_mask(), reduction, run);
    at::Tensor logits = model.graph->exit(residual, asked, from.logit_tokens, run);
    return planned.makes_loss() ? next_token_loss(logits, reads.targets, reads.input.main_mask(), reduction)
                                : logits;
  } catch (const LastPointPassed&) {
    return {};
  }
}

Made compute(const PlannedRun& planned) {
  const LoadedModel& model = planned.model;
  const RunOptions& options = planned.options;
  Made made;
  std::optional<KvCache> kept;
  Run run = started(planned, planned.input, planned.plan, planned.extent, kept);
  const at::Tensor logit_tokens =
      options.logit_tokens ? to_device(*options.logit_tokens, model.device) : at::Tensor();
  const at::Tensor output = output_of(planned, {planned.input, planned.targets, logit_tokens}, run);
  if (kept) kept->advance(planned.input.length(), planned.input.main_mask());
  if (options.gradients) {
    const GradientRequest& asked = *options.gradients;
    const at::Tensor read =
        planned.metric_columns.empty() ? output : logits_at(planned.metric_columns, output, planned.extent);
    const at::Tensor metric =
        require_scalar(asked.of_run ? asked.of_run.function(output, run.watch.live()) : asked.metric(read));
    made.gradients = run.watch.take_gradients(metric);
    made.metric = metric.detach();
  }
  made.computed = {output, run.watch.take_cache(), std::move(kept)};
  return made;
}

// The same by a recording: made at the second such run, replayed from the third on.
Made replay(const PlannedRun& planned, RunKey key) {
  const LoadedModel& model = planned.model;
  Made made;
  made.refusal = std::move(key.refusal);
  RunOptions asked_for = planned.options;
  asked_for.loss.targets = planned.targets;
  const RunTensors tensors(model, planned.input, asked_for, key.places);
  const auto work = [&](const std::vector<at::Tensor>& given) -> Computed {
    Input input = planned.input;
    RunOptions with = asked_for;
    const RunTensors::Numbers numbers = tensors.put(given, input, with);
    RunExtent extent = with_numbers_of(model, input, planned.extent);
    extent.keeps_here = true;
    std::optional<KvCache> kept;
    Run run =
        started(planned, input,
                are_the_same(given, tensors.all) ? planned.plan : make_plan(model, planned.reach, {}, with),
                extent, kept);
    if (numbers.edit_places.defined()) run.watch.put_places(numbers.edit_places);
    at::Tensor output = output_of(planned, {input, with.loss.targets, numbers.logit_tokens}, run);
    if (kept) kept->advance(input.length(), input.main_mask());
    return {std::move(output), run.watch.take_cache(), std::move(kept)};
  };
  made.computed = model.recordings->run(
      {.key = std::move(key.key), .inputs = tensors.all, .frozen = tensors.frozen}, work, made.refusal);
  ActivationCache& cache = made.computed.cache;
  if (const Kept& asked = planned.plan->kept(); asked.transport) {
    send_to_host(cache, *asked.transport);
  } else if (asked.device) {
    cache = cache.to(*asked.device);
  }
  return made;
}

Made compute_or_replay(const PlannedRun& planned, const Input& given) {
  const LoadedModel& model = planned.model;
  if (planned.options.eager) return compute(planned);
  RunKey key = model.recordings ? run_key(planned, given) : RunKey{{}, model.recording_problem};
  if (!key.key.empty()) return replay(planned, std::move(key));
  Made made = compute(planned);
  made.refusal = std::move(key.refusal);
  return made;
}

}  // namespace

RunResult HookedTransformer::run(const Input& input, const RunOptions& options) const {
  const Again again = options.hooks.empty() && hooks_->empty() ? Again::allowed : Again::refused;
  return with_memory(memory_of(*model_, kRunDoor, again), [&] { return run_once(input, options); });
}

RunResult HookedTransformer::run_once(const Input& given, const RunOptions& options) const {
  const LoadedModel& model = *model_;
  model.require_mapped_file();
  const ThreadLimit limit(options.threads);
  // Grad modes belong to the thread and are restored when the run ends, even by a throw.
  const at::AutoGradMode grad_mode(options.gradients || options.differentiable);
  const PlannedRun planned = plan_run(model, given, options, hooks_->snapshot());
  Made made = compute_or_replay(planned, given);
  model.require_mapped_file();  // afterwards as well: it may have been cut meanwhile
  at::Tensor output = made.computed.output;
  if (output.defined() && !options.differentiable) output = output.detach();

  RunResult result;
  result.cache = std::move(made.computed.cache);
  result.gradients = std::move(made.gradients);
  result.metric_ = made.metric;
  for (ActivationCache* cache : {&result.cache, &result.gradients})
    set_origin(*cache, model, {given, planned.input}, *planned.plan);
  if (given.text) {
    if (auto note = bos_note(tokenizer_of(model), model.config)) result.notes.push_back(*std::move(note));
  }
  if (!made.refusal.empty())
    result.notes.push_back(fmt::format("computed kernel by kernel: {}", made.refusal));
  if (options.output == Output::loss) {
    result.kind_ = Output::loss;
    result.output_ =
        planned.makes_loss()
            ? output
            : next_token_loss(output, planned.targets, planned.input.main_mask(), options.loss.reduction);
  } else if (options.output != Output::none) {
    result.kind_ = planned.reach.exit && model.config.has_unembedding() ? Output::logits : Output::residual;
    result.output_ = output;
    if (result.kind_ == Output::logits) {
      result.logit_positions_ = planned.extent.logit_positions;
      result.logit_tokens_ = options.logit_tokens;
    }
  }
  result.columns_ = planned.extent.columns.tokens();
  if (result.columns_.mask.defined() && result.cache.tokens() && result.cache.tokens()->mask.defined())
    result.columns_.mask = result.cache.tokens()->mask;  // which may be on the host
  result.model_dtype_ = model.config.dtype;
  if (model.device.is_cpu()) {
    if (const auto found = result.not_finite()) result.notes.push_back(found->text());
  }
  if (made.computed.columns)
    result.prefix.emplace(loaded(), std::make_shared<const KvCache>(*std::move(made.computed.columns)));
  return result;
}

CachedRun HookedTransformer::run_with_cache(const Input& input, const Selection& capture,
                                            RunOptions options) const {
  options.capture = options.capture | capture;
  return {run(input, options)};
}

RunResult HookedTransformer::run_with_hooks(const Input& input, const Hooks& hooks,
                                            RunOptions options) const {
  options.hooks.insert(options.hooks.end(), hooks.begin(), hooks.end());
  return run(input, options);
}

}  // namespace hooked
