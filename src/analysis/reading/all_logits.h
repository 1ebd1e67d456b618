#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "analysis/stream/final_stage.h"
#include "analysis/stream/frozen_norm.h"
#include "analysis/stream/stream_path.h"

namespace hooked {

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
