#pragma once

#include <ATen/core/Tensor.h>

namespace hooked {

/// The inputs of the gated delta rule for some tokens. Value heads share query and key heads as heads of
/// attention share keys: consecutive ones the same.
struct DeltaInputs {
  at::Tensor q, k;   ///< [batch, pos, key head, d_key], of any length
  at::Tensor v;      ///< [batch, pos, head, d_value]
  at::Tensor beta;   ///< [batch, pos, head]: how much of what the state has at a key is replaced
  at::Tensor decay;  ///< [batch, pos, head]: the logarithm of the state's factor before
};

/// Its results.
struct DeltaOutputs {
  at::Tensor out;    ///< [batch, pos, head, d_value], in float32 or better
  at::Tensor state;  ///< [batch, head, d_key, d_value] after the last token, in float32 or better
};

/// The gated delta rule (Yang et al. 2024): S := exp(decay) S, then S := S + k beta (v - S^T k)^T, and each
/// token reads S^T q. Queries and keys are normalised to length 1, queries divided by sqrt(d_key). `state` is
/// the state before the first token, undefined for zeros. Tokens whose beta and decay are 0 leave the state
/// unchanged. Several tokens are computed in chunks of 64 as in the paper's section 3.3. Differentiable.
DeltaOutputs gated_delta_rule(const DeltaInputs& of, const at::Tensor& state);

/// The states after each token, [batch, pos, head, d_key, d_value] in float32 or better, computed token by
/// token. `state` as in gated_delta_rule, which computes the same states up to rounding.
at::Tensor delta_states(const DeltaInputs& of, const at::Tensor& state);

/// What queries [batch, pos, key head, d_key] of any length read from the states after their tokens, [batch,
/// pos, head, d_key, d_value]: [batch, pos, head, d_value].
at::Tensor read_of_states(const at::Tensor& q, const at::Tensor& states);

}  // namespace hooked
