#pragma once

#include <ATen/core/Tensor.h>

#include "hooked/engine/hooked_transformer.h"

namespace hooked {

/// A prompt and what follows it, int64 [batch, pos] and [batch, continuation].
struct PromptAndContinuation {
  at::Tensor prompt;
  at::Tensor continuation;
};

/// log p of each token of the continuation given all before it, [batch, continuation], nats. Its negative
/// mean is the continuation's loss. `options` holds what else the run shall do (hooks, edits, a prefix);
/// `attention_mask` covers the prompt, which may be padded on the left. Throws as run() does.
at::Tensor continuation_log_probs(const HookedTransformer& model, const PromptAndContinuation& tokens,
                                  RunOptions options = {});

}  // namespace hooked
