#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "analysis/stream/frozen_norm.h"
#include "analysis/stream/stream_path.h"

namespace hooked {

/// One attention of the stack that predicts, with its pattern, its gates and the scales of its norms held as
/// they were in a run: linear in the stream. All numbers float64 on the CPU.
struct FrozenAttention {
  std::optional<FrozenNorm> before;  ///< the norm that its values read through
  std::optional<FrozenNorm> behind;  ///< the norm that its output passes
  at::Tensor W_V;                    ///< [head, d_model, d_value]; for latents both maps and the gain between
  at::Tensor W_O;                    ///< [head, d_value, d_model]
  at::Tensor constant;               ///< [head, d_value]: values for a stream of zeros
  at::Tensor bias;                   ///< [d_model]: what it writes without any values
  at::Tensor behind_bias;            ///< [d_model] of the norm after it; undefined: none
  /// [row, head, query, key], divided by what norms divide each key's values (or their latent) by.
  at::Tensor pattern;
  at::Tensor gate;  ///< [row, query, head, d_value] that mixed values are multiplied by; undefined: no gate

  /// The output of head `head` for streams [source, row, pos, d_model]. For a path's first head,
  /// `with_constant` is the source to which the constant part of its values is added; -1: none.
  at::Tensor of(const at::Tensor& streams, std::int64_t head, std::int64_t with_constant) const;

  /// The output that does not depend on what is attended to, [row, pos, d_model].
  at::Tensor always() const;
};

/// The attention of a layer in a run that has kept all positions of its pattern. Throws HookError if
/// something is missing.
FrozenAttention frozen_attention(const RunReading& run, std::int32_t layer, const char* where);

}  // namespace hooked
