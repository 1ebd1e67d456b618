#pragma once

#include <ATen/core/Tensor.h>

#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// log p of each token of `continuation` [batch, continuation] int64 given everything before it, [batch,
/// continuation], nats. Its negative mean is the continuation's loss. The prompt may be padded on the left.
/// `options` says what else the run does (hooks, edits). Throws what run() throws.
at::Tensor continuation_log_probs(const HookedTransformer& model, const Input& prompt,
                                  const at::Tensor& continuation, RunOptions options = {});

}  // namespace hooked
