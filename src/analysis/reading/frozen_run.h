#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "analysis/stream/final_stage.h"
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

/// Every logit as read from the end of one run's stream, with the final norm's scale of that run and before
/// any soft cap. All numbers float64 on the CPU.
class AllLogits {
 public:
  /// `run` must outlive this. Throws HookError if the final norm's scale was not kept.
  explicit AllLogits(const RunReading& run);

  /// Of streams [.., row, pos, d_model]: [.., row, pos, vocab], without what even an empty stream has.
  at::Tensor of(const at::Tensor& streams) const;
  /// What an empty stream has: the biases of the final norm and of the unembedding as logits, [vocab].
  at::Tensor of_biases() const;
  /// The run's own logits as the cache shows them, [row, pos, vocab]; undefined if it does not.
  at::Tensor shown() const;

 private:
  const RunReading& run_;
  FinalAffine affine_;
  at::Tensor W_U_;  // [d_model, vocab]
  at::Tensor b_U_;  // [vocab]
  std::optional<FrozenNorm> norm_;
};

}  // namespace hooked
