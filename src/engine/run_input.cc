#include "engine/run_input.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/nonzero.h>
#include <fmt/format.h>

#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

void require_ids(const at::Tensor& ids, const char* where, std::int64_t d_vocab) {
  if (ids.scalar_type() != at::kLong) {
    throw ShapeError(where,
                     fmt::format("token ids have the wrong dtype; expected int64, got {}; convert them with "
                                 ".to(at::kLong)",
                                 dtype_text(ids.scalar_type())));
  }
  if (ids.dim() != 2 || ids.numel() == 0) {
    throw ShapeError(
        where, fmt::format("token ids have the wrong shape; expected [batch, pos] with at least one token, "
                           "got {}",
                           shape_text(ids.sizes())));
  }
  const at::Tensor outside = (ids < 0).logical_or(ids >= d_vocab);
  if (!outside.any().item<bool>()) return;
  const at::Tensor first = at::nonzero(outside)[0].to(at::kCPU);
  const auto row = first[0].item<std::int64_t>(), position = first[1].item<std::int64_t>();
  throw ShapeError(
      where, fmt::format("token id {} in row {} at position {} is not in the vocabulary; expected 0 to {}",
                         ids[row][position].item<std::int64_t>(), row, position, d_vocab - 1));
}

void require_output(const ModelConfig& config, const RunOptions& options) {
  const bool wants_logits = options.output == Output::logits || options.output == Output::loss;
  if (!config.has_unembedding()) {
    if (options.gradients) {
      throw HookError(
          "gradients",
          "this model has no unembedding, so there are no logits to take a metric of; expected no "
          "gradients");
    }
    if (options.logit_positions) {
      throw HookError("logit_positions",
                      "this model has no unembedding and so no logits; expected no logit_positions");
    }
    if (wants_logits && !options.stop_at_layer) {
      throw HookError("output",
                      "this model has no unembedding and so no logits; expected Output::residual (the stream "
                      "after the last block) or Output::none (only what is captured)");
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

at::Tensor check_token_types(const at::Tensor& types, const RunInput& input, const LoadedModel& model) {
  const ModelConfig& config = model.config;
  if (config.token_types == 0) {
    throw ShapeError("token_types",
                     "this model has no token types; expected none to be given; leave token_types out");
  }
  if (!input.tokens.defined()) {
    throw ShapeError("token_types",
                     "the run starts behind the embedding, where token types are added; expected none with "
                     "start_at_layer");
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
  const at::Tensor outside = (types < 0).logical_or(types >= config.token_types);
  if (outside.any().item<bool>()) {
    const at::Tensor first = at::nonzero(outside)[0].to(at::kCPU);
    const auto row = first[0].item<std::int64_t>(), position = first[1].item<std::int64_t>();
    throw ShapeError(
        "token_types",
        fmt::format("type {} in row {} at position {} is not one of this model's; "
                    "expected 0 to {}",
                    types[row][position].item<std::int64_t>(), row, position, config.token_types - 1));
  }
  return types.to(model.device);
}

// The mask of `columns` [batch, pos, ...]; undefined where it masks nothing.
at::Tensor check_mask(const at::Tensor& mask, const char* where, const at::Tensor& columns) {
  if (!mask.defined()) return {};
  if (mask.dim() != 2 || mask.size(0) != columns.size(0) || mask.size(1) != columns.size(1)) {
    throw ShapeError(where, fmt::format("the mask does not fit the input; expected [batch, pos] = [{}, {}], "
                                        "got {}",
                                        columns.size(0), columns.size(1), shape_text(mask.sizes())));
  }
  const at::Tensor binary = (mask == 0).logical_or(mask == 1);
  if (!binary.all().item<bool>()) {
    throw ShapeError(where,
                     "the mask holds other numbers than 0 and 1; expected 1 for real tokens, 0 for "
                     "padding");
  }
  const at::Tensor real = mask.to(columns.device(), at::kBool);
  if (!real.any(1).all().item<bool>()) {
    throw ShapeError(where, "a row is all padding; expected at least one real token in each row");
  }
  // A mask of ones is no mask: the same plan, the same bits.
  return real.all().item<bool>() ? at::Tensor() : real;
}

at::Tensor check_ids(const at::Tensor& tokens, const char* where, const LoadedModel& model) {
  const at::Tensor ids = tokens.dim() == 1 ? tokens.unsqueeze(0) : tokens;
  require_ids(ids, where, model.config.d_vocab);
  return ids.to(model.device);
}

// What a decoder reads where the options do not say: its start token in every row.
at::Tensor start_tokens(const ModelConfig& config, const at::Tensor& source) {
  if (!config.decoder_start_token) {
    throw ShapeError(
        "decoder_tokens",
        "this model's config names no token that its decoder starts with; expected decoder_tokens "
        "[batch, pos]");
  }
  return at::full({source.size(0), 1}, *config.decoder_start_token, source.options());
}

// Fills in the side of the encoder and of the decoder.
void check_two_sides(RunInput& checked, const LoadedModel& model, const at::Tensor& input,
                     const RunOptions& options) {
  if (options.start_at_layer || options.prefix || options.keep_prefix) {
    throw ShapeError(options.start_at_layer ? "start_at_layer"
                     : options.prefix       ? "prefix"
                                            : "keep_prefix",
                     "a decoder goes on from an encoder's output as well; expected none with an "
                     "encoder-decoder; run it from the tokens");
  }
  const at::Tensor source = check_ids(input, "tokens", model);
  checked.source = {source, check_mask(options.attention_mask, "attention_mask", source)};
  checked.tokens = options.decoder_tokens.defined()
                       ? check_ids(options.decoder_tokens, "decoder_tokens", model)
                       : start_tokens(model.config, source);
  if (checked.batch() != source.size(0)) {
    throw ShapeError("decoder_tokens",
                     fmt::format("the decoder has other rows than the encoder; expected {}, "
                                 "got {}",
                                 source.size(0), checked.batch()));
  }
  checked.attention_mask =
      check_mask(options.decoder_attention_mask, "decoder_attention_mask", checked.tokens);
}

void require_prefix(const Prefix& prefix, const LoadedModel& model, const RunInput& input) {
  if (prefix.model().get() != &model) {
    throw ShapeError("prefix", "the prefix was run by another model; expected one of this model");
  }
  if (prefix.batch() != 1 && prefix.batch() != input.batch()) {
    throw ShapeError("prefix", fmt::format("the prefix has another number of rows than the input; expected 1 "
                                           "or {}, got {}",
                                           input.batch(), prefix.batch()));
  }
  const ModelConfig& config = model.config;
  if (config.direction == AttentionDirection::bidirectional) {
    throw ShapeError("prefix",
                     "in this model tokens attend to those after them as well, so what a prefix remembers "
                     "would not hold; expected no prefix with a bidirectional model");
  }
  require_lasting_keys(config, prefix.length() + input.length());
}

}  // namespace

std::optional<Run::Source> RunInput::source_of_run(std::vector<KeysAndValues>* memory) const {
  if (!source) return std::nullopt;
  return Run::Source{source->tokens.size(1), source->attention_mask, memory};
}

std::int64_t columns_before(const std::optional<Prefix>& prefix) { return prefix ? prefix->length() : 0; }

void require_room(const ModelConfig& config, const char* where, std::int64_t length) {
  const bool any_length = config.positions == PositionKind::alibi ||
                          config.positions == PositionKind::relative ||
                          config.positions == PositionKind::none;
  if (length <= config.n_ctx || any_length) return;
  throw ShapeError(where,
                   fmt::format("the input is too long for this model; expected at most {} tokens, got {}",
                               config.n_ctx, length));
}

void require_lasting_keys(const ModelConfig& config, std::int64_t length) {
  const RopeScaling& scaling = config.rotary.scaling;
  if (config.positions != PositionKind::rotary || !scaling.depends_on_length() ||
      static_cast<double>(length) <= scaling.original_n_ctx) {
    return;
  }
  throw ShapeError(
      "prefix", fmt::format("beyond {} tokens this model turns its keys by the length of the whole input, so "
                            "what a prefix remembers would not hold; expected at most that many, got {}; "
                            "run all tokens at once",
                            scaling.original_n_ctx, length));
}

std::int64_t resolve_layer(std::int64_t layer, const LoadedModel& model, const char* option) {
  const std::int64_t n = model.config.n_layers;
  const std::int64_t resolved = layer < 0 ? layer + n : layer;
  if (resolved < 0 || resolved > n) {
    throw ShapeError(option, fmt::format("layer {} is out of range; expected {} to {}", layer, -n, n));
  }
  return resolved;
}

RunInput check_input(const LoadedModel& model, const at::Tensor& input, const RunOptions& options) {
  const ModelConfig& config = model.config;
  if (!input.defined())
    throw ShapeError("tokens", "the input is an undefined tensor; expected token ids [batch, pos]");
  require_output(config, options);
  RunInput checked;
  if (config.has_encoder()) {
    check_two_sides(checked, model, input, options);
  } else if (options.decoder_tokens.defined() || options.decoder_attention_mask.defined()) {
    throw ShapeError(options.decoder_tokens.defined() ? "decoder_tokens" : "decoder_attention_mask",
                     "this model has no encoder, so the input is all that is read; expected none");
  } else if (options.start_at_layer) {
    if (input.dim() != 3 || input.size(2) != config.d_model || input.numel() == 0) {
      throw ShapeError("residual",
                       fmt::format("the input has the wrong shape; expected [batch, pos, {}] because "
                                   "start_at_layer is set, got {}",
                                   config.d_model, shape_text(input.sizes())));
    }
    if (input.scalar_type() != config.dtype) {
      throw ShapeError("residual",
                       fmt::format("the input has another dtype than the model; expected {}, got {}",
                                   dtype_text(config.dtype), dtype_text(input.scalar_type())));
    }
    checked.residual = input.detach().to(model.device).clone(at::MemoryFormat::Contiguous);
  } else {
    checked.tokens = check_ids(input, "tokens", model);
  }

  const std::int64_t past = columns_before(options.prefix);
  require_room(config, "tokens", past + checked.length());
  if (options.prefix) require_prefix(*options.prefix, model, checked);
  if (!config.has_encoder()) {
    checked.attention_mask = check_mask(options.attention_mask, "attention_mask",
                                        checked.tokens.defined() ? checked.tokens : checked.residual);
  }

  if (options.token_types.defined()) {
    const bool one_row = options.token_types.dim() == 1 && input.dim() == 1;
    checked.token_types =
        check_token_types(one_row ? options.token_types.unsqueeze(0) : options.token_types, checked, model);
  }

  if (options.output == Output::loss) {
    const bool given = options.target_tokens.defined();
    if (!given && !checked.tokens.defined()) {
      throw ShapeError("target_tokens",
                       "a loss needs token ids and this run starts from a residual; expected "
                       "target_tokens [batch, pos]");
    }
    checked.targets = given ? options.target_tokens : checked.tokens;
    require_ids(checked.targets, "target_tokens", config.d_vocab_out);
    if (checked.targets.size(0) != checked.batch() || checked.targets.size(1) != checked.length()) {
      throw ShapeError("target_tokens",
                       fmt::format("the targets do not fit the input; expected [{}, {}], got {}",
                                   checked.batch(), checked.length(), shape_text(checked.targets.sizes())));
    }
    if (checked.length() < 2) {
      throw ShapeError("tokens", "a loss needs a next token to predict; expected at least 2 tokens, got 1");
    }
    if (const at::Tensor& real = checked.attention_mask;
        real.defined() && !real.narrow(1, 0, real.size(1) - 1)
                               .logical_and(real.narrow(1, 1, real.size(1) - 1))
                               .any()
                               .item<bool>()) {
      throw ShapeError("attention_mask",
                       "no two neighbouring tokens are real, so nothing is predicted; expected at least "
                       "one prediction for a loss");
    }
    checked.targets = checked.targets.to(model.device);
  }
  return checked;
}

}  // namespace hooked
