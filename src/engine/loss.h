#pragma once

#include <ATen/core/Tensor.h>

#include "hooked/engine/run_options.h"

namespace hooked {

/// Logits as what is computed from them wants them: float32 or better.
at::Tensor precise(const at::Tensor& logits);

/// log p of each of `tokens` [...] by the logits [..., vocab] it was predicted with, nats, in float32 or
/// better.
at::Tensor token_log_probs(const at::Tensor& logits, const at::Tensor& tokens);

/// Next-token cross entropy in nats, computed in float32 or better: mean over the predictions whose two
/// tokens are real, or [batch, pos - 1] with zeros for the others.
at::Tensor next_token_loss(const at::Tensor& logits, const at::Tensor& tokens, const at::Tensor& real,
                           LossReduction reduction);

}  // namespace hooked
