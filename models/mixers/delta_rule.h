#pragma once

#include <ATen/core/Tensor.h>

namespace hooked {

/// What the gated delta rule reads of some tokens. Heads of values share those of queries and keys as heads
/// of attention share keys: consecutive ones the same.
struct DeltaInputs {
  at::Tensor q, k;   ///< [batch, pos, key head, d_key], of any length
  at::Tensor v;      ///< [batch, pos, head, d_value]
  at::Tensor beta;   ///< [batch, pos, head]: how much of what the state has at a key is replaced
  at::Tensor decay;  ///< [batch, pos, head]: the logarithm of what the state is multiplied by before
};

/// What it gives.
struct DeltaOutputs {
  at::Tensor out;    ///< [batch, pos, head, d_value], in float32 or better
  at::Tensor state;  ///< [batch, head, d_key, d_value] behind the last token, in float32 or better
};

/// The gated delta rule (Yang et al. 2024): S := exp(decay) S, then S := S + k beta (v - S^T k)^T, and each
/// token reads S^T q. Queries and keys are brought to length 1, queries divided by sqrt(d_key). `state` is
/// what was before the first token, undefined for zeros. Tokens whose beta and decay are 0 leave the state as
/// it is. Several tokens are computed in chunks of 64 as the paper's section 3.3 has it. Differentiable.
DeltaOutputs gated_delta_rule(const DeltaInputs& of, const at::Tensor& state);

/// The states behind each token, [batch, pos, head, d_key, d_value] in float32 or better, made token by
/// token. `state` as in gated_delta_rule, whose states these are but for rounding.
at::Tensor delta_states(const DeltaInputs& of, const at::Tensor& state);

/// What queries [batch, pos, key head, d_key] of any length read in the states behind their tokens, [batch,
/// pos, head, d_key, d_value]: [batch, pos, head, d_value].
at::Tensor read_of_states(const at::Tensor& q, const at::Tensor& states);

}  // namespace hooked
