#include "engine/run_input.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/nonzero.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/to_device.h"
#include "engine/input_checks.h"
#include "engine/model_text.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

struct PlacedId {
  std::int64_t id, row, position;
};

// The first of `ids` [batch, pos] that is negative or at least `n`; nothing if there is none.
std::optional<PlacedId> first_outside(const at::Tensor& ids, std::int64_t n) {
  const at::Tensor outside = (ids < 0).logical_or(ids >= n);
  if (!outside.any().item<bool>()) return std::nullopt;
  const at::Tensor first = at::nonzero(outside)[0].to(at::kCPU);
  const auto row = first[0].item<std::int64_t>(), position = first[1].item<std::int64_t>();
  return PlacedId{ids[row][position].item<std::int64_t>(), row, position};
}

void require_ids(const at::Tensor& ids, const char* where, std::int64_t d_vocab) {
  if (ids.scalar_type() != at::kLong) {
    throw ShapeError(where,
                     fmt::format("token ids have the wrong dtype; expected int64, got {}; convert them",
                                 dtype_text(ids.scalar_type())));
  }
  if (ids.dim() != 2 || ids.numel() == 0) {
    throw ShapeError(
        where, fmt::format("token ids have the wrong shape; expected [batch, pos] with at least one token, "
                           "got {}",
                           shape_text(ids.sizes())));
  }
  if (const auto found = first_outside(ids, d_vocab)) {
    throw ShapeError(
        where, fmt::format("token id {} in row {} at position {} is not in the vocabulary; expected 0 to {}",
                           found->id, found->row, found->position, d_vocab - 1));
  }
}

at::Tensor check_token_types(const at::Tensor& given, const Input& input, const LoadedModel& model) {
  // One row may be given without a batch axis, as its tokens are.
  const at::Tensor types = given.dim() == 1 && input.batch() == 1 ? given.unsqueeze(0) : given;
  const ModelConfig& config = model.config;
  if (config.token_types == 0) {
    throw ShapeError("token_types",
                     "this model has no token types; expected none to be given; leave token_types out");
  }
  if (input.start) {
    throw ShapeError(
        "token_types",
        "the run starts after the embedding, where token types are added; expected none with start_at_layer");
  }
  if (types.scalar_type() != at::kLong) {
    throw ShapeError("token_types", fmt::format("the types have the wrong dtype; expected int64, got {}",
                                                dtype_text(types.scalar_type())));
  }
  if (types.sizes() != input.tokens.sizes()) {
    throw ShapeError("token_types",
                     fmt::format("the types do not fit the input; expected [batch, pos] = [{}, {}], got {}",
                                 input.batch(), input.length(), shape_text(types.sizes())));
  }
  if (const auto found = first_outside(types, config.token_types)) {
    throw ShapeError("token_types",
                     fmt::format("type {} in row {} at position {} is not one of this model's; "
                                 "expected 0 to {}",
                                 found->id, found->row, found->position, config.token_types - 1));
  }
  return to_device(types, model.device);
}

// The mask of `columns` [batch, pos, ...]; undefined if it masks nothing.
at::Tensor check_mask(const at::Tensor& mask, const char* where, const at::Tensor& columns) {
  if (!mask.defined()) return {};
  if (mask.dim() != 2 || mask.size(0) != columns.size(0) || mask.size(1) != columns.size(1)) {
    throw ShapeError(where, fmt::format("the mask does not fit the input; expected [batch, pos] = [{}, {}], "
                                        "got {}",
                                        columns.size(0), columns.size(1), shape_text(mask.sizes())));
  }
  const at::Tensor here = mask.to(at::kCPU);
  const at::Tensor binary = (here == 0).logical_or(here == 1);
  if (!binary.all().item<bool>()) {
    throw ShapeError(where,
                     "the mask holds other numbers than 0 and 1; expected 1 for real tokens, 0 for "
                     "padding");
  }
  const at::Tensor real = here.to(at::kBool);
  if (!real.any(1).all().item<bool>()) {
    throw ShapeError(where, "a row is all padding; expected at least one real token in each row");
  }
  // A mask of ones is dropped: the same plan, the same bits.
  return real.all().item<bool>() ? at::Tensor() : to_device(real, columns.device());
}

at::Tensor check_ids(const at::Tensor& tokens, const char* where, const LoadedModel& model) {
  if (!tokens.defined())
    throw ShapeError(where, "the input is an undefined tensor; expected token ids [batch, pos]");
  const at::Tensor ids = tokens.dim() == 1 ? tokens.unsqueeze(0) : tokens;
  require_ids(ids, where, model.config.d_vocab);
  return to_device(ids, model.device);
}

// What blocks read in addition to the stream if a run starts inside; undefined if they read nothing.
at::Tensor check_start_tokens(const StartAtLayer& start, std::int64_t layer, const LoadedModel& model) {
  if (!start.tokens.defined() && (!model.config.layer_input || layer == model.config.n_layers)) return {};
  if (!model.config.layer_input) {
    throw ShapeError("start.tokens",
                     "blocks of this model read only the stream; expected no tokens with a residual");
  }
  if (!start.tokens.defined()) {
    throw ShapeError("start.tokens",
                     "each block of this model reads the tokens, too (layer_input); expected those of the "
                     "residual's columns, [batch, pos]; set the input's start->tokens");
  }
  at::Tensor tokens = check_ids(start.tokens, "start.tokens", model);
  if (tokens.size(0) != start.residual.size(0) || tokens.size(1) != start.residual.size(1)) {
    throw ShapeError("start.tokens",
                     fmt::format("the tokens do not fit the residual; expected [{}, {}], got {}",
                                 start.residual.size(0), start.residual.size(1), shape_text(tokens.sizes())));
  }
  return tokens;
}

StartAtLayer check_start(const StartAtLayer& start, const LoadedModel& model) {
  const ModelConfig& config = model.config;
  const at::Tensor& residual = start.residual;
  if (!residual.defined())
    throw ShapeError("residual", fmt::format("the residual is an undefined tensor; expected [batch, pos, {}]",
                                             config.d_model));
  if (residual.dim() != 3 || residual.size(2) != config.d_model || residual.numel() == 0) {
    throw ShapeError("residual",
                     fmt::format("the input has the wrong shape; expected [batch, pos, {}] because "
                                 "start_at_layer is set, got {}",
                                 config.d_model, shape_text(residual.sizes())));
  }
  if (residual.scalar_type() != config.stream_dtype()) {
    throw ShapeError("residual",
                     fmt::format("the input has another dtype than the model's stream; expected {}, got {}",
                                 dtype_text(config.stream_dtype()), dtype_text(residual.scalar_type())));
  }
  const std::int64_t layer = resolve_layer(start.layer, config, "start_at_layer");
  const c10::Device& device = model.placement.of({config.main_stack(), layer});
  return {layer, to_device(residual, device).clone(at::MemoryFormat::Contiguous),
          check_start_tokens(start, layer, model)};
}

// Fills in what the only stack reads, or, after an encoder-decoder's prefix, what the decoder reads.
void check_one_stack(Input& input, const LoadedModel& model) {
  if (input.decoder.tokens.defined() || input.decoder.attention_mask.defined()) {
    throw ShapeError(input.decoder.tokens.defined() ? "decoder_tokens" : "decoder_attention_mask",
                     model.config.has_encoder()
                         ? "after a prefix the tokens are the decoder's; expected none in addition"
                         : "this model has no encoder, so the input is all that is read; expected none");
  }
  if (input.start) {
    if (input.tokens.defined()) {
      throw ShapeError("start_at_layer",
                       "a run that starts from a residual reads no tokens; expected none with it");
    }
    input.start = check_start(*input.start, model);
  } else {
    input.tokens = check_ids(input.tokens, "tokens", model);
  }
  input.attention_mask =
      check_mask(input.attention_mask, "attention_mask", input.start ? input.start->residual : input.tokens);
  require_one_count(model.padding_token, input.tokens, {.mask = input.attention_mask, .where = "tokens"});
}

// Fills in what the encoder and the decoder read.
void check_two_stacks(Input& input, const LoadedModel& model) {
  input.tokens = check_ids(input.tokens, "tokens", model);
  input.attention_mask = check_mask(input.attention_mask, "attention_mask", input.tokens);
  require_one_count(model.padding_token, input.tokens, {.mask = input.attention_mask, .where = "tokens"});
  DecoderInput& decoder = input.decoder;
  if (input.start) {
    if (decoder.tokens.defined()) {
      throw ShapeError("start_at_layer",
                       "a decoder that starts from a residual reads no tokens; expected none with it");
    }
    input.start = check_start(*input.start, model);
  } else {
    decoder.tokens =
        check_ids(input.with_decoder_start(model.config).decoder.tokens, "decoder_tokens", model);
  }
  if (input.batch() != input.tokens.size(0)) {
    throw ShapeError(input.start ? "residual" : "decoder_tokens",
                     fmt::format("the decoder has other rows than the encoder; expected {}, got {}",
                                 input.tokens.size(0), input.batch()));
  }
  decoder.attention_mask = check_mask(decoder.attention_mask, "decoder_attention_mask",
                                      input.start ? input.start->residual : decoder.tokens);
  require_one_count(model.padding_token, decoder.tokens,
                    {.mask = decoder.attention_mask, .where = "decoder_tokens"});
}

// With a text replaced by its tokens.
Input without_text(const LoadedModel& model, const Input& given) {
  Input input = given;
  if (!input.text) return input;
  input.tokens = tokens_of(model, *input.text, {});
  input.text.reset();
  return input;
}

}  // namespace

void require_output(const ModelConfig& config, const RunOptions& options) {
  const bool wants_logits = options.output == Output::logits || options.output == Output::loss;
  if (!config.has_unembedding()) {
    if (options.gradients && options.gradients->metric) {
      throw HookError(
          "gradients",
          "this model has no unembedding, so there are no logits to take a metric of; expected no "
          "gradients");
    }
    if (options.logit_positions || options.logit_tokens) {
      throw HookError(options.logit_positions ? "logit_positions" : "logit_tokens",
                      "this model has no unembedding and so no logits; expected neither logit_positions nor "
                      "logit_tokens");
    }
    if (wants_logits && !options.stop_at_layer) {
      throw HookError(
          "output",
          "this model has no unembedding and so no logits; expected the output `residual` (the stream "
          "where the model ends) or `none` (only what is captured)");
    }
  }
  if (options.output == Output::loss && config.direction == AttentionDirection::bidirectional) {
    throw HookError(
        "output",
        "this model attends in both directions and sees the tokens that a next-token loss asks it "
        "for; expected a causal model; for a masked-token loss take the logits at the masked "
        "positions");
  }
}

void require_room(const ModelConfig& config, const char* where, std::int64_t length) {
  const bool any_length = config.alibi() != nullptr || config.relative() != nullptr ||
                          std::holds_alternative<NoPositions>(config.positions);
  if (length <= config.n_ctx || any_length) return;
  throw ShapeError(where,
                   fmt::format("the input is too long for this model; expected at most {} tokens, got {}",
                               config.n_ctx, length));
}

std::int64_t resolve_layer(std::int64_t layer, const ModelConfig& config, const char* option) {
  const std::int64_t n = config.n_layers;
  const std::int64_t resolved = layer < 0 ? layer + n : layer;
  if (resolved < 0 || resolved > n) {
    throw ShapeError(option, fmt::format("layer {} is out of range; expected {} to {}", layer, -n, n));
  }
  return resolved;
}

Input with_ids(const LoadedModel& model, const Input& given) {
  return without_text(model, given).with_decoder_start(model.config);
}

Input check_input(const LoadedModel& model, const Input& given) {
  const ModelConfig& config = model.config;
  Input input = without_text(model, given);
  if (config.has_encoder() && !input.prefix) {
    check_two_stacks(input, model);
  } else {
    check_one_stack(input, model);
  }
  require_room(config, config.has_encoder() && !input.prefix ? "decoder_tokens" : "tokens",
               input.first_column() + input.length());
  if (input.feeds_encoder()) require_room(config, "tokens", input.tokens.size(1));
  if (input.prefix) require_prefix(*input.prefix, model, input);
  if (!input.first_columns.empty()) require_first_columns(input, config);
  if (input.token_types.defined()) input.token_types = check_token_types(input.token_types, input, model);
  return input;
}

at::Tensor check_targets(const LoadedModel& model, const Input& input, const RunOptions& options) {
  if (options.output != Output::loss) return {};
  const at::Tensor& targets = options.loss.targets.defined() ? options.loss.targets : input.main_tokens();
  if (!targets.defined()) {
    throw ShapeError("target_tokens",
                     "a loss needs token ids and this run starts from a residual; expected loss.targets "
                     "[batch, pos]");
  }
  // The ids of the input were checked, but against another vocabulary.
  if (options.loss.targets.defined() || model.config.d_vocab_out() != model.config.d_vocab) {
    require_ids(targets, "target_tokens", model.config.d_vocab_out());
  }
  if (targets.size(0) != input.batch() || targets.size(1) != input.length()) {
    throw ShapeError("target_tokens",
                     fmt::format("the targets do not fit the input; expected [{}, {}], got {}", input.batch(),
                                 input.length(), shape_text(targets.sizes())));
  }
  if (input.length() < 2) {
    throw ShapeError("tokens", "a loss needs a next token to predict; expected at least 2 tokens, got 1");
  }
  if (const at::Tensor& real = input.main_mask();
      real.defined() && !real.narrow(1, 0, real.size(1) - 1)
                             .logical_and(real.narrow(1, 1, real.size(1) - 1))
                             .any()
                             .item<bool>()) {
    throw ShapeError("attention_mask",
                     "no two neighbouring tokens are real, so nothing is predicted; expected at least "
                     "one prediction for a loss");
  }
  return to_device(targets, model.device);
}

Reach reach_of(const LoadedModel& model, const Input& input) {
  Reach reach = Reach::everything(model.points);
  if (!input.feeds_encoder()) {
    reach.entry = !model.config.has_encoder() && !input.start;
    reach.encoder_blocks = 0;
    reach.encoder_exit = false;
  }
  if (input.start) reach.first_block = input.start->layer;
  if (!model.config.has_unembedding() && model.config.final_norm == NormKind::none) reach.exit = false;
  return reach;
}

std::shared_ptr<const RaggedRows> ragged_rows(const LoadedModel& model, const Input& input) {
  if (input.first_columns.empty()) return nullptr;
  return std::make_shared<const RaggedRows>(input.first_columns, input.first_column() + input.length(),
                                            model.placement.devices());
}

at::Tensor prefix_mask(const Input& prompt) {
  const at::Tensor real = prompt.prefix ? prompt.prefix->columns()->real() : at::Tensor();
  if (!real.defined()) return {};
  // Rows with a first column of their own may begin before the prefix ends.
  return real.narrow(1, 0, std::min(real.size(1), prompt.first_column())).expand({prompt.batch(), -1});
}

RunExtent extent_of(const Input& prompt, const RunColumns& columns) {
  RunExtent extent{.columns = columns};
  extent.columns.prefix_mask = prefix_mask(prompt);
  if (prompt.feeds_encoder()) {
    extent.encoder = RunColumns{.end = prompt.tokens.size(1)};
    extent.encoder->set_mask(prompt.attention_mask);
  } else if (prompt.prefix && !prompt.prefix->columns()->encoder().empty()) {
    const EncoderKeys& encoder = prompt.prefix->columns()->encoder();
    extent.encoder = RunColumns{.end = encoder.length()};
    if (encoder.real.defined()) extent.encoder->set_mask(encoder.real.expand({prompt.batch(), -1}));
  }
  return extent;
}

GraphInput graph_input(const Input& input) {
  return {.encoder_tokens = input.feeds_encoder() ? input.tokens : at::Tensor(),
          .tokens = input.start ? input.start->tokens : input.main_tokens(),
          .residual = input.start ? input.start->residual : at::Tensor()};
}

std::optional<Sequence> encoder_sequence(const LoadedModel& model, const Input& input) {
  if (!input.feeds_encoder()) return std::nullopt;
  return Sequence(model.config, Stack::encoder,
                  {.batch = input.tokens.size(0),
                   .length = input.tokens.size(1),
                   .attention_mask = input.attention_mask,
                   .device = model.device});
}

}  // namespace hooked
