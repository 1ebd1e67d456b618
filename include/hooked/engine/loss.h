#pragma once

#include <ATen/core/Tensor.h>

#include "hooked/core/export.h"
#include "hooked/engine/run_options.h"

namespace HOOKED_EXPORT hooked {

/// log p of each of `tokens` [...] under the logits [..., vocab] that predicted it, nats, in float32 or
/// better.
at::Tensor token_log_probs(const at::Tensor& logits, const at::Tensor& tokens);

/// Next-token cross entropy in nats, computed in float32 or better: the mean over predictions whose two
/// tokens are both real, or [batch, pos - 1] with zeros for the others. `logits` [batch, pos, vocab],
/// `tokens` [batch, pos], `real` of the same shape in bool, or undefined: all are.
at::Tensor next_token_loss(const at::Tensor& logits, const at::Tensor& tokens, const at::Tensor& real = {},
                           LossReduction reduction = LossReduction::mean);

/// The same from the losses of single predictions, [batch, pos - 1]: their mean, or the losses with zeros for
/// those that involve padding.
at::Tensor reduced_loss(const at::Tensor& losses, const at::Tensor& real, LossReduction reduction);

}  // namespace hooked
