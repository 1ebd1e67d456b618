#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "models/sequence.h"

namespace hooked {

/// What the cross-attention of a decoder's blocks reads.
struct CrossInputs {
  at::Tensor encoder_output;          ///< [batch, pos of the encoder, d_model]; undefined with `made`
  const EncoderKeys* made = nullptr;  ///< the keys and values that an earlier run made of it, or null
  EncoderKeys* kept = nullptr;        ///< where this run keeps them for later ones; null: nowhere
  LayerKind kind;
};

/// What the blocks of one stack read besides the residual stream: made before the first of them runs.
struct StackInputs {
  const Sequence& sequence;
  LayerKind full;      ///< of the layers without a window
  LayerKind windowed;  ///< of those with one
  /// Position embeddings [1 or batch, pos, d_model] for queries and keys (shortformer), else undefined.
  at::Tensor query_key_positions;
  std::optional<CrossInputs> cross;  ///< of decoders that read an encoder
};

}  // namespace hooked
