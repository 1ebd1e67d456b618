#include "engine/column_runs.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/unique_dim.h>
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/to_device.h"
#include "engine/recorded_run.h"
#include "engine/run_input.h"
#include "hooked/hooks/site.h"
#include "models/transformer/transformer.h"

namespace hooked {
namespace {

// Number of steps whose captures are copied by one launch per activation.
constexpr std::size_t kCopiedTogether = 32;

std::int64_t columns_of_source(const Input& prompt) {
  if (prompt.feeds_encoder()) return prompt.tokens.size(1);
  if (!prompt.prefix || prompt.prefix->columns()->encoder().empty()) return 0;
  return prompt.prefix->columns()->encoder().length();
}

}  // namespace

ColumnRuns::ColumnRuns(std::shared_ptr<const LoadedModel> model, const Input& prompt, std::int64_t end,
                       const StepKinds& kinds, bool eager)
    : model_(std::move(model)),
      prompt_(prompt),
      reach_(reach_of(*model_, prompt)),
      end_(end),
      eager_(eager),
      uncentred_(kinds.uncentred),
      kind_{.batch = prompt.batch(), .source = columns_of_source(prompt), .forms = forms_for(kinds)},
      captured_(model_->device.is_cpu() ? 1 : kCopiedTogether, kinds.later.plan->kept().transport) {
  std::string refusal = model_->recording_problem;
  if (model_->recordings != nullptr) refusal = refusal_of_steps(*kinds.later.plan);
  const bool in_room = model_->recordings != nullptr && refusal.empty();
  if (!in_room) past_ = prompt.first_column();
  if (!refusal.empty() && !eager)
    notes_.push_back(fmt::format("steps are computed kernel by kernel: {}", refusal));
  if (in_room) room_ = room_for(prompt.first_column() + prompt.length() + 1);
  restart();
}

KeyRooms::Lent ColumnRuns::room_for(std::int64_t columns) const {
  KeyRooms& rooms = *model_->key_rooms;
  // A room that is lent again would hold memory for recordings that will never be made.
  return eager_ ? rooms.own(kind_, columns) : rooms.lend(kind_, columns);
}

std::vector<KeyForm> ColumnRuns::forms_for(const StepKinds& kinds) const {
  std::vector<KeyForm> forms = model_->graph->key_forms(*kinds.prompt.plan);
  const std::vector<KeyForm> of_later = model_->graph->key_forms(*kinds.later.plan);
  for (std::size_t l = 0; l < forms.size(); ++l) {
    const bool prefix_has_heads =
        prompt_.prefix && prompt_.prefix->columns()->form(static_cast<std::int64_t>(l)) == KeyForm::heads;
    if (of_later[l] == KeyForm::heads || prefix_has_heads) forms[l] = KeyForm::heads;
  }
  return forms;
}

void ColumnRuns::restart() {
  if (room_) {
    if (room_->columns.length() > 0) room_->columns.clear();
    if (prompt_.prefix) {
      room_->columns.take_over(
          model_->graph->in_forms(*prompt_.prefix->columns(), kind_.forms, {&model_->workspace}));
    }
  } else {
    columns_.emplace(model_->config.n_layers,
                     KvCache::Size{.batch = prompt_.batch(), .capacity = end_ - past_});
  }
}

RunExtent ColumnRuns::extent_of_step(const Step& step) {
  const std::int64_t first = past_ + cache().length();
  RunExtent extent = extent_of(
      prompt_,
      {.first = first, .end = first + step.tokens.size(1), .limit = end_, .after_prompt = !step.is_prompt});
  extent.columns.set_mask(step.real);
  if (!model_->dictionaries.empty()) extent.tokens = step.tokens;
  return extent;
}

at::Tensor ColumnRuns::run(const Step& step, const StepWatch& watch) {
  const bool one = step.tokens.size(1) == 1 && !step.is_prompt && !step.row_lengths.defined();
  return room_ && one ? run_at_column(step, watch) : run_columns(step, watch);
}

at::Tensor ColumnRuns::run_columns(const Step& step, const StepWatch& watch) {
  const std::int64_t length = step.tokens.size(1);
  RunExtent extent = extent_of_step(step);
  // Many steps are sent to the host at a time.
  extent.keeps_here = !step.is_prompt && watch.plan->kept().transport != nullptr;
  Run run{.watch = Watch(watch.plan, std::move(extent)),
          .sequence = Sequence(model_->config, model_->config.main_stack(),
                               {.batch = step.tokens.size(0),
                                .length = length,
                                .attention_mask = step.real,
                                .device = model_->main_device(),
                                .prefix = prompt_.prefix && !room_ ? prompt_.prefix->columns() : nullptr,
                                .cache = &cache(),
                                .row_lengths = step.row_lengths}),
          .encoder_sequence = step.is_prompt ? encoder_sequence(*model_, prompt_) : std::nullopt,
          .uncentred = uncentred_,
          .workspace = &model_->workspace};
  GraphInput input{.tokens = step.tokens};
  if (step.is_prompt) input.encoder_tokens = graph_input(prompt_).encoder_tokens;
  // Logits of columns other than the last are expensive and computed only if they are watched.
  at::Tensor wanted = step.last;
  if (!watch.plan->watches_exit() && length > 1) {
    if (wanted.defined()) {
      std::tie(input.logit_columns, wanted, std::ignore) =
          at::unique_dim(step.last, 0, /*sorted=*/true, /*return_inverse=*/true, /*return_counts=*/false);
    } else {
      input.logit_columns = at::full({1}, length - 1, step.tokens.options());
    }
  }
  const at::Tensor logits = model_->graph->forward(input, reach_, run);  // [batch, column, vocab]
  cache().advance(length, step.real);
  if (room_) room_->columns.settle_encoder();
  // A step that keeps nothing is a part of the sequence too.
  if (watch.plan->captures()) captured_.append(run.watch.take_cache());
  if (!wanted.defined()) return logits.select(1, -1);
  const at::Tensor columns = to_device(wanted, logits.device());
  return logits.index({at::arange(logits.size(0), columns.options()), columns});
}

at::Tensor ColumnRuns::run_at_column(const Step& step, const StepWatch& watch) {
  if (cache().length() == cache().capacity()) {
    KeyRooms::Lent larger = room_for(cache().length() + 1);
    larger->columns.take_over(cache());
    larger->columns.settle_encoder();
    room_ = std::move(larger);
  }
  KvCache& columns = cache();
  columns.mark(1, step.real);
  RunExtent extent = extent_of_step(step);
  extent.keeps_here = true;
  extent.room = columns.capacity();
  Recordings::Inputs inputs{step.tokens, room_->column(columns.length())};
  const at::Tensor keys = Watch(watch.plan, extent).keys_of_edits();
  if (keys.defined()) inputs.push_back(to_device(keys, model_->device));
  const std::size_t first_value = inputs.size();
  const std::vector<at::Tensor> values = edit_tensors(watch.options);
  inputs.insert(inputs.end(), values.begin(), values.end());
  const auto work = [&](const Recordings::Inputs& given) -> Computed {
    std::shared_ptr<const WatchPlan> plan = watch.plan;
    if (!are_the_same(given, inputs)) {
      RunOptions options = watch.options;
      put_edit_tensors(given, first_value, options);
      plan = make_plan(*model_, reach_, {}, options);
    }
    Run run{.watch = Watch(plan, extent),
            .sequence = Sequence(model_->config, model_->config.main_stack(),
                                 {.batch = columns.batch(),
                                  .length = 1,
                                  .attention_mask = {},
                                  .device = model_->device,
                                  .cache = &columns,
                                  .column = given[1]}),
            .uncentred = uncentred_,
            .workspace = &model_->workspace};
    if (keys.defined()) run.watch.put_keys(given[2]);
    at::Tensor logits = model_->graph->forward({.tokens = given[0]}, reach_, run);
    return {std::move(logits), run.watch.take_cache()};
  };
  std::string refusal;
  const Computed computed =
      eager_ ? work(inputs)
             : model_->recordings->run(
                   {.key = step_key(*model_, extent, watch.plan, *room_) + (uncentred_ ? "|uncentred" : ""),
                    .inputs = inputs,
                    .memory = room_.memory()},
                   work, refusal);
  if (!refusal.empty()) {
    std::string note = fmt::format("steps are computed kernel by kernel: {}", refusal);
    if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(std::move(note));
  }
  columns.advance(1);
  if (watch.plan->captures()) captured_.append(kept_at(computed.cache, extent, watch.plan->kept()));
  return computed.output.select(1, -1);
}

ActivationCache ColumnRuns::kept_at(const ActivationCache& kept, const RunExtent& extent,
                                    const Kept& asked) const {
  ActivationCache here(model_->points);
  here.set_tokens(extent.columns.tokens());
  if (extent.encoder) here.set_tokens(extent.encoder->tokens(), Stack::encoder);
  for (ActivationCache::Entry entry : kept) {
    if (!entry.positions.empty()) entry.positions = {extent.columns.first};
    at::Tensor value = entry.value();
    // After its own column nothing is attended to.
    if (row(entry.name.site).axes.find(Axis::key)) value = value.narrow(-1, 0, extent.columns.end);
    entry.held = asked.device && !asked.transport ? value.to(*asked.device) : value;
    here.insert(std::move(entry));
  }
  return here;
}

}  // namespace hooked
