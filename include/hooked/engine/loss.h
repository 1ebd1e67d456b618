#pragma once

#include <ATen/core/Tensor.h>

#include "hooked/core/export.h"
#include "hooked/engine/run_options.h"

namespace HOOKED_EXPORT hooked {

/// log p of each of `tokens` [...] by the logits [..., vocab] it was predicted with, nats, in float32 or
/// better.
at::Tensor token_log_probs(const at::Tensor& logits, const at::Tensor& tokens);

/// Next-token cross entropy in nats, computed in float32 or better: mean over the predictions whose two
/// tokens are real, or [batch, pos - 1] with zeros for the others. `logits` [batch, pos, vocab], `tokens`
/// [batch, pos], `real` the same in bool or undefined: all are.
at::Tensor next_token_loss(const at::Tensor& logits, const at::Tensor& tokens, const at::Tensor& real = {},
                           LossReduction reduction = LossReduction::mean);

/// The same from the losses of the single predictions, [batch, pos - 1]: their mean or themselves, without
/// those that padding is part of.
at::Tensor reduced_loss(const at::Tensor& losses, const at::Tensor& real, LossReduction reduction);

}  // namespace hooked
