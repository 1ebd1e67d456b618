#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "models/sequence/sequence.h"

namespace hooked {

/// What the cross-attention of a decoder's blocks reads.
struct CrossInputs {
  at::Tensor encoder_output;          ///< [batch, pos of the encoder, d_model]; undefined with `made`
  const EncoderKeys* made = nullptr;  ///< the keys and values that an earlier run made of it, or null
  EncoderKeys* kept = nullptr;        ///< where this run keeps them for later ones; null: nowhere
  LayerKind kind;
};

/// The masks and angles that layers of one kind share.
struct LayerInputs {
  std::vector<LayerKind> kinds;  ///< one for each of the sequence's parts
  RotaryAngles angles;           ///< undefined without rotary
};

/// What the blocks of one stack read besides the residual stream: made before the first of them runs.
struct StackInputs {
  const Sequence& sequence;
  LayerInputs full;      ///< of the layers without a window
  LayerInputs windowed;  ///< of those with one
  /// Position embeddings [1 or batch, pos, d_model] for queries and keys (shortformer), else undefined.
  at::Tensor query_key_positions;
  std::optional<CrossInputs> cross;  ///< of decoders that read an encoder
  at::Tensor query_growth = {};      ///< factors of queries [1 or batch, pos, 1, 1], where the model has some
  /// What short convolutions read, one for each of the sequence's parts; empty without such layers.
  std::vector<EarlierTokens> earlier = {};
  RunTokens run_tokens = {};  ///< what layers with a state go by
  at::Tensor tokens = {};     ///< [batch, pos] int64 and
  at::Tensor embedding = {};  ///< [batch, pos, d_model], where blocks read them (layer_input); else undefined
  /// In a block of which only some columns are asked for: these, of each of the sequence's parts, [column]
  /// int64. Keys and values are made of all columns. Empty: all are asked for.
  std::vector<at::Tensor> asked = {};

  /// The same for a block of which only these columns are asked for, of each of the sequence's parts.
  StackInputs at_columns(const std::vector<at::Tensor>& columns) const;
  /// All of it that blocks read, on the device of those that come next.
  void bring_to(const c10::Device& device);
  /// The columns that are asked for of one part's `x` [row, pos, ...].
  at::Tensor asked_of_part(const at::Tensor& x, std::size_t part) const;
  /// The same of all parts: `x` [batch, pos, ...], or the tokens of ragged rows.
  at::Tensor asked_of(const at::Tensor& x) const;
};

}  // namespace hooked
