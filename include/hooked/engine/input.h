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
  /// [batch, pos] or [pos] int64, from its start token on; undefined: that token alone.
  at::Tensor tokens = {};
  at::Tensor attention_mask = {};  ///< [batch, pos], 1 or true for real tokens; padding on either side
};

/// A residual stream to go on from, instead of an embedding.
struct StartAtLayer {
  std::int64_t
      layer;  ///< the stream is the one before this block; n_layers: behind the last. May be negative
  at::Tensor residual;  ///< [batch, pos, d_model] in the model's dtype
  /// [batch, pos] int64: the tokens of these columns, for models whose blocks read them (layer_input); else
  /// undefined.
  at::Tensor tokens = {};
};

/// Everything about an input but its tokens. For designated initialisers.
struct InputDetails {
  /// [batch, pos], 1 or true for real tokens; padding on either side. Positions count real tokens.
  at::Tensor attention_mask = {};
  /// Types of the tokens, [batch, pos] int64, for models that have token types; undefined: all 0.
  at::Tensor token_types = {};
  /// Encoder-decoders: the tokens are what the encoder reads, and this is what the decoder does.
  DecoderInput decoder = {};
  /// Tokens that stand before these and were run already. Positions in addresses and options count them; a
  /// cache holds this input's columns only. The prefix of an encoder-decoder holds what its encoder read: the
  /// tokens are the decoder's then.
  std::optional<Prefix> prefix = std::nullopt;
  /// Start inside the stack that predicts. Models with one stack read no tokens then.
  std::optional<StartAtLayer> start = std::nullopt;
  /// Each row's own first column, where rows begin at different columns behind a shared prefix of one row: 0
  /// to the prefix's length. The prefix stands before each row as far as the row does not begin. The input's
  /// columns begin with the smallest of these; what it says of a row before the row's own first column is not
  /// read, and activations and logits are NaN there. Empty: every row begins behind the whole prefix.
  std::vector<std::int64_t> first_columns = {};
};

/// What a model reads: token ids or a text, and what belongs to them.
///
///     model.run(tokens);
///     model.run("When John and Mary went to the shop,");
///     model.run({tokens, {.attention_mask = mask}});
///     model.run(Input::start_at_layer(3, residual));
struct Input : InputDetails {
  /// `ids` int64 [batch, pos] or [pos] (then batch is 1).
  Input(at::Tensor ids, InputDetails details = {})  // NOLINT: token ids are an input
      : InputDetails(std::move(details)), tokens(std::move(ids)) {}
  /// A text, which the model's tokenizer turns into ids as to_tokens() does: with its family's BOS policy.
  template <std::convertible_to<std::string_view> Text>
  Input(const Text& given, InputDetails details = {})  // NOLINT: a text is an input
      : InputDetails(std::move(details)), text(std::string_view(given)) {}
  /// The stream [batch, pos, d_model] before block `layer` instead of tokens.
  static Input start_at_layer(std::int64_t layer, at::Tensor residual, InputDetails details = {});

  at::Tensor tokens = {};  ///< undefined with a text, and behind a residual that starts the only stack
  std::optional<std::string> text = std::nullopt;  ///< instead of tokens

  // Of what the stack that predicts reads, which is the tokens, a decoder's or a residual. Not for a text.

  std::int64_t batch() const;            ///< rows
  std::int64_t length() const;           ///< columns, without those of a prefix
  std::int64_t first_column() const;     ///< how many columns of the sequence stand before the input's
  const at::Tensor main_tokens() const;  ///< [batch, pos] or [pos]; undefined behind a residual
  const at::Tensor main_mask() const;    ///< undefined: no padding
  /// Each row's last real column, [batch] int64.
  at::Tensor last_columns() const;
  /// The same of what an encoder reads.
  at::Tensor last_encoder_columns() const;
  /// This input with what its decoder reads where nothing says so: the start token [batch, 1] of the config.
  /// Unchanged for models with one stack, behind a prefix or a residual, and for a text. Throws ShapeError
  /// where the config names no such token.
  Input with_decoder_start(const ModelConfig& config) const;

  /// Whether the tokens are an encoder's.
  bool feeds_encoder() const { return decoder.tokens.defined() || (start && tokens.defined()); }
};

}  // namespace hooked
