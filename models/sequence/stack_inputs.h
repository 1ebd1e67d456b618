#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "models/sequence/sequence.h"

namespace hooked {

/// What the cross-attention of a decoder's blocks reads.
struct CrossInputs {
  at::Tensor encoder_output;          ///< [batch, pos of the encoder, d_model]; undefined with `made`
  const EncoderKeys* made = nullptr;  ///< the keys and values that an earlier run computed from it, or null
  EncoderKeys* kept = nullptr;        ///< where this run keeps them for later ones; null: nowhere
  LayerKind kind;
};

/// The masks and angles that layers of one kind share.
struct LayerInputs {
  std::vector<LayerKind> kinds;  ///< one for each of the sequence's parts
  RotaryAngles angles;           ///< undefined without rotary
};

/// What the blocks of one stack read in addition to the residual stream: made before the first of them runs.
struct StackInputs {
  const Sequence& sequence;
  LayerInputs full = {};      ///< of the layers without a window
  LayerInputs windowed = {};  ///< of those with one
  /// Position embeddings [1 or batch, pos, d_model] for queries and keys (shortformer), else undefined.
  at::Tensor query_key_positions = {};
  std::optional<CrossInputs> cross = {};  ///< for decoders that read an encoder
  at::Tensor query_growth = {};  ///< factors of queries [1 or batch, pos, 1, 1], if the model has them
  /// What short convolutions read, one for each of the sequence's parts; empty without such layers.
  std::vector<EarlierTokens> earlier = {};
  RunTokens run_tokens = {};  ///< what layers with a state need
  at::Tensor tokens = {};     ///< [batch, pos] int64 and
  at::Tensor embedding = {};  ///< [batch, pos, d_model], if blocks read them (layer_input); else undefined
  /// Set in a block if only some of its columns are requested: these, for each of the sequence's parts,
  /// [column] int64. Keys and values are computed for all columns. Empty: all are requested.
  std::vector<at::Tensor> asked = {};

  /// The same for a block from which only these columns are requested, for each of the sequence's parts.
  StackInputs at_columns(const std::vector<at::Tensor>& columns) const;
  /// Moves everything that blocks read to the device of the next blocks.
  void bring_to(const c10::Device& device);
  /// The requested columns of one part's `x` [row, pos, ...].
  at::Tensor asked_of_part(const at::Tensor& x, std::size_t part) const;
  /// The same for all parts: `x` [batch, pos, ...], or the tokens of ragged rows.
  at::Tensor asked_of(const at::Tensor& x) const;
};

}  // namespace hooked
