// hooked cache: activations, logits and gradients as a safetensors file.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/actions.h"
#include "cli/input_options.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/show.h"
#include "cli/text_notes.h"
#include "core/json.h"
#include "hooked/core/error.h"

namespace hooked::cli {
namespace {

// The one token that was chosen.
std::int64_t token_id(const TokenChoice& choice, std::string_view option, const HookedTransformer& model) {
  const std::int64_t id = ids_of_choice(choice, model).front();
  if (id < 0 || id >= model.config().d_vocab_out()) {
    throw ShapeError(option, fmt::format("the model has no logit for token {}; expected 0 to {}", id,
                                         model.config().d_vocab_out() - 1));
  }
  return id;
}

/// A difference of two logits of row 0.
struct LogitDifference {
  std::int64_t answer, against, position;

  LogitMetric metric() const {
    return [*this](const at::Tensor& logits) {
      const auto row = logits.select(0, 0).select(0, position);
      return row.select(0, answer).sub(row.select(0, against));
    };
  }
  std::string text() const {
    return fmt::format("logit {} minus logit {} at position {} of row 0", answer, against, position);
  }
};

LogitDifference read_difference(const CacheOptions& options, const HookedTransformer& model,
                                const Input& input) {
  if (!model.config().has_unembedding()) {
    throw HookError("--gradients", "this model has no unembedding and so no logits; expected no --gradients");
  }
  return {
      .answer = token_id(options.answers, "--answer-token", model),
      .against = token_id(options.against, "--against-token", model),
      .position =
          columns_in_row(options.position ? PlaceList{*options.position} : PlaceList(), input, 0).front()};
}

// Saved in addition to the activations: the input as --tokens-file reads it, the output, gradients.
std::vector<TensorBeside> beside(const Input& input, const RunResult& result, bool stopped) {
  std::vector<TensorBeside> tensors;
  const auto add = [&](std::string name, const at::Tensor& value, const AxisList& axes) {
    if (value.defined()) tensors.push_back({std::move(name), value.detach(), axes});
  };
  add("tokens", input.tokens, {Axis::batch, Axis::pos});
  add("token_type_ids", input.token_types, {Axis::batch, Axis::pos});
  add("decoder_tokens", input.decoder.tokens, {Axis::batch, Axis::pos});
  if (result.output() == Output::logits)
    add("logits", result.logits(), {Axis::batch, Axis::pos, Axis::vocab_out});
  // The output of a model without unembedding; a stopped run's stream is among the activations.
  if (result.output() == Output::residual && !stopped)
    add("residual", result.residual(), {Axis::batch, Axis::pos, Axis::d_model});
  for (const auto& entry : result.gradients)
    add("grad." + entry.name.to_string(), entry.value(), row(entry.name.site).axes);
  return tensors;
}

Json report_json(const CacheOptions& options, const HookedTransformer& model, const GivenInput& given,
                 const FileContents& contents) {
  Json json = model_json(model);
  json["out"] = options.out;
  json["bytes"] = contents.bytes();
  json["tensors"] = tensors_json(contents);
  add_tokens(given, json);
  return json;
}

}  // namespace

void perform(const CacheOptions& options) {
  require_can_write(options.out, ActivationCache::require_can_save, CommandReads(options), options.force);
  const auto model = load_model(options.model);
  const auto given = read_input(options.input, model);
  const Input& input = given.input;
  RunOptions run;
  run.edits = read_edits(options.edits, model, input);
  run.capture = options.names.empty() ? Selection(act::defaults) : Selection(options.names);
  const bool logits = model.config().has_unembedding() && !options.stop_at_layer;
  if (!logits) run.output = Output::residual;
  if (options.stop_at_layer) {
    run.stop_at_layer = options.stop_at_layer;
  }
  std::optional<LogitDifference> difference;
  if (options.gradients) {
    difference = read_difference(options, model, input);
    run.gradients = GradientRequest{.of = run.capture, .metric = difference->metric()};
  }
  auto result = model.run(input, run);
  const std::vector<std::string> notes = notes_of(result);
  print_notes(notes);
  if (difference) {
    print_notes(
        answer_notes({&options.answers, &options.against}, model, input, difference->position, run.edits));
  }

  SaveCacheOptions save{.provenance = provenance_of(model, given),
                        .beside = beside(input, result, options.stop_at_layer.has_value()),
                        .overwrite = overwrite_of(options.force)};
  save.provenance.edits = options.edits.texts;
  if (difference) save.provenance.more["gradients_of"] = difference->text();
  const InterruptGuard guard;  // before this, there is nothing to keep
  {
    ProgressBar bar("saving");
    save.progress = bar.progress();
    result.cache.save(options.out, save);
  }
  const FileContents contents(options.out);
  if (options.json) {
    Json json = report_json(options, model, given, contents);
    json["not_finite"] = not_finite_json(notes);
    return print_json(json);
  }
  print_summary(contents, Detail::brief);
  if (options.list) print_list(contents);
}

}  // namespace hooked::cli
