#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/core/model_config.h"
#include "hooked/engine/prefix.h"

namespace HOOKED_EXPORT hooked {

/// What the decoder of an encoder-decoder reads.
struct DecoderInput {
  /// [batch, pos] or [pos] int64, including the start token; undefined: that token alone.
  at::Tensor tokens = {};
  at::Tensor attention_mask = {};  ///< [batch, pos], 1 or true for real tokens; padding on either side
};

/// A residual stream to start from, instead of an embedding.
struct StartAtLayer {
  std::int64_t
      layer;  ///< the stream given is that before this block; n_layers: after the last; may be negative
  at::Tensor residual;  ///< [batch, pos, d_model] in the model's dtype
  /// [batch, pos] int64: the tokens of these columns, for models with per-layer embeddings (layer_input);
  /// else undefined.
  at::Tensor tokens = {};
};

/// Everything about an input except its tokens. For designated initialisers.
struct InputDetails {
  /// [batch, pos], 1 or true for real tokens; padding on either side. Positions count real tokens.
  at::Tensor attention_mask = {};
  /// [batch, pos] int64: types of the tokens, for models with token types; undefined: all 0.
  at::Tensor token_types = {};
  /// Encoder-decoders: the tokens are the encoder's input, and this is the decoder's.
  DecoderInput decoder = {};
  /// Tokens that precede these and were already run. Positions in addresses and options count them; a cache
  /// holds only this input's columns. The prefix of an encoder-decoder includes what its encoder read, so
  /// that the tokens are the decoder's.
  std::optional<Prefix> prefix = std::nullopt;
  /// Start inside the stack that predicts. Models with one stack then read no tokens.
  std::optional<StartAtLayer> start = std::nullopt;
  /// Each row's first column, if rows start at different columns after a shared prefix of one row: 0 to the
  /// prefix's length. Each row sees the prefix up to its own first column. The input's columns start at the
  /// smallest of these; what the input says of a row before its own first column is not read, and activations
  /// and logits are NaN there. Empty: every row starts after the whole prefix.
  std::vector<std::int64_t> first_columns = {};
};

/// What a model reads: token ids or a text, and the details.
///
///     model.run(tokens);
///     model.run("When John and Mary went to the shop,");
///     model.run({tokens, {.attention_mask = mask}});
///     model.run(Input::start_at_layer(3, residual));
struct Input : InputDetails {
  /// `ids` int64 [batch, pos] or [pos] (then batch is 1).
  Input(at::Tensor ids, InputDetails details = {})  // NOLINT: token ids are an input
      : InputDetails(std::move(details)), tokens(std::move(ids)) {}
  /// A text, which the model's tokenizer converts as to_tokens() does: with its family's BOS policy.
  template <std::convertible_to<std::string_view> Text>
  Input(const Text& given, InputDetails details = {})  // NOLINT: a text is an input
      : InputDetails(std::move(details)), text(std::string_view(given)) {}
  /// The stream [batch, pos, d_model] before block `layer`, instead of tokens.
  static Input start_at_layer(std::int64_t layer, at::Tensor residual, InputDetails details = {});

  at::Tensor tokens = {};  ///< undefined with a text, and if a residual starts the only stack
  std::optional<std::string> text = std::nullopt;  ///< instead of tokens

  // About the input of the stack that predicts: the tokens, a decoder's or a residual. Not for a text.

  std::int64_t batch() const;            ///< rows
  std::int64_t length() const;           ///< columns, not counting a prefix's
  std::int64_t first_column() const;     ///< the number of columns before the input's
  const at::Tensor main_tokens() const;  ///< [batch, pos] or [pos]; undefined with a residual
  const at::Tensor main_mask() const;    ///< undefined: no padding
  /// Each row's last real column, [batch] int64.
  at::Tensor last_columns() const;
  /// The same for what an encoder reads.
  at::Tensor last_encoder_columns() const;
  /// This input with the decoder's input filled in if nothing says what it is: the start token [batch, 1] of
  /// the config. Unchanged for models with one stack, after a prefix or with a residual, and for a text.
  /// Throws ShapeError if the config has no such token.
  Input with_decoder_start(const ModelConfig& config) const;

  /// Whether the tokens are an encoder's.
  bool feeds_encoder() const { return decoder.tokens.defined() || (start && tokens.defined()); }
};

}  // namespace hooked
