#pragma once

#include <ATen/core/Tensor.h>

#include "hooked/engine/run_options.h"

namespace hooked {

/// Next-token cross entropy in nats, computed in float32 or better: mean over the predictions whose two
/// tokens are real, or [batch, pos - 1] with zeros for the others.
at::Tensor next_token_loss(const at::Tensor& logits, const at::Tensor& tokens, const at::Tensor& real,
                           LossReduction reduction);

}  // namespace hooked
