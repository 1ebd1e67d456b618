// hooked cache: activations, logits and gradients as a safetensors file.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/actions.h"
#include "cli/edit_options.h"
#include "cli/input_options.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/io/safetensors.h"
#include "options/command.h"
#include "options/shared_options.h"

namespace hooked::cli {
namespace {

using Tensors = std::vector<std::pair<std::string, at::Tensor>>;

// A token given by its id or, for models with a tokenizer, by its text.
std::int64_t token_id(const std::string& text, std::string_view option, const HookedTransformer& model) {
  std::int64_t id = 0;
  try {
    const auto ids = parse_integers(text, option);
    if (ids.size() != 1) throw UsageError(fmt::format("{}: expected one token, got '{}'", option, text));
    id = ids.front();
  } catch (const UsageError&) {
    if (!model.has_tokenizer()) throw;
    id = model.to_token(text);
  }
  if (id < 0 || id >= model.config().d_vocab_out()) {
    throw ShapeError(option, fmt::format("the model has no logit for token {}; expected 0 to {}", id,
                                         model.config().d_vocab_out() - 1));
  }
  return id;
}

// The difference of two logits of row 0.
LogitMetric logit_difference(const CacheOptions& options, const HookedTransformer& model,
                             const Input& input) {
  if (!model.config().has_unembedding()) {
    throw HookError("--gradients", "this model has no unembedding and so no logits; expected no --gradients");
  }
  const auto answer = token_id(options.answer_token, "--answer-token", model);
  const auto against = token_id(options.against_token, "--against-token", model);
  const auto position = options.position.value_or(input.last_columns()[0].item<std::int64_t>());
  if (position < -input.length() || position >= input.length()) {
    throw ShapeError("--position", fmt::format("position {} is out of range; expected {} to {}", position,
                                               -input.length(), input.length() - 1));
  }
  return [=](const at::Tensor& logits) {
    const auto row = logits.select(0, 0).select(0, position);
    return row.select(0, answer).sub(row.select(0, against));
  };
}

void append(Tensors& tensors, std::string_view prefix, const ActivationCache& cache) {
  for (const auto& entry : cache) {
    tensors.emplace_back(fmt::format("{}{}", prefix, entry.name.to_string()), entry.value.contiguous());
  }
}

void report(const CacheOptions& options, const Input& input, const Tensors& tensors) {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.nbytes();
  if (options.json) {
    auto names = Json::array();
    for (const auto& [name, tensor] : tensors) names.push_back(name);
    Json json = {{"out", options.out}, {"tensors", names}, {"bytes", bytes}};
    add_tokens(input, json);
    return print_json(json);
  }
  fmt::print("{}: {} tensors, {}\n", options.out, tensors.size(), size_text(bytes));
  Table table({{"name"}, {"shape"}, {"dtype"}});
  for (const auto& [name, tensor] : tensors) {
    table.add({name, shape_text(tensor.sizes()), std::string(dtype_text(tensor.scalar_type()))});
  }
  table.print("  ");
}

}  // namespace

void perform(const CacheOptions& options) {
  const auto model = load_model(options.model);
  const auto input = read_input(options.input, model);
  RunOptions run;
  run.edits = read_edits(options.edits, model, input);
  run.capture = options.names.empty() ? Selection(act::defaults) : Selection(options.names);
  const bool logits = model.config().has_unembedding() && !options.stop_at_layer;
  if (!logits) run.output = Output::residual;
  if (options.stop_at_layer) {
    run.stop_at_layer = options.stop_at_layer;
  }
  if (options.gradients) {
    run.gradients = GradientRequest{.of = run.capture, .metric = logit_difference(options, model, input)};
  }
  const auto result = model.run(input, run);

  Tensors tensors = {{"tokens", input.tokens.contiguous()}};
  if (input.decoder.tokens.defined()) {
    tensors.emplace_back("decoder_tokens", input.decoder.tokens.contiguous());
  }
  if (logits) tensors.emplace_back("logits", result.logits.detach().contiguous());
  if (!model.config().has_unembedding() && !options.stop_at_layer)
    tensors.emplace_back("residual", result.residual.contiguous());  // what such a model puts out
  append(tensors, "", result.cache);
  append(tensors, "grad.", result.gradients);
  save_safetensors(options.out, tensors);
  report(options, input, tensors);
}

}  // namespace hooked::cli
