#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "models/graph/norm.h"
#include "models/graph/token_mixer.h"

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

/// A gated delta net (Yang et al. 2024) instead of attention. See DeltaNet in model_parts.h.
class DeltaNetMixer : public TokenMixer {
 public:
  explicit DeltaNetMixer(const GraphContext& context);

  at::Tensor forward(const AttentionInput& input, const StackInputs& stack, Run& run) const override;
  KeyForm key_form(const WatchPlan& /*plan*/) const override { return KeyForm::state; }
  WeightSlots slots(const std::string& path) const override;

 private:
  /// The convolution of queries, keys and values [batch, pos, d_lin_qkv], and its last inputs.
  struct Convolved {
    at::Tensor values;  ///< [batch, pos, d_lin_qkv]
    at::Tensor inputs;  ///< [batch, taps - 1, d_lin_qkv]
  };
  Convolved convolved(const at::Tensor& qkv, const at::Tensor& inputs, const RunTokens& tokens) const;
  /// What heads read and write; if somebody watches the state after each token, by way of these states.
  DeltaOutputs recurred(const DeltaInputs& inputs, const at::Tensor& before, Run& run) const;
  /// Queries, keys, values, beta and decay from the layer's input; padding leaves the state unchanged.
  DeltaInputs inputs(const at::Tensor& x, const at::Tensor& qkv, const StackInputs& stack, Run& run) const;

  const ModelConfig& config_;
  const DeltaNet& sizes_;
  std::int64_t layer_;
  Matrix W_Q_, W_K_, W_V_, W_gate_, W_beta_, W_decay_, W_O_;
  at::Tensor filter_;           // [tap, d_lin_qkv], the oldest token's tap first
  at::Tensor A_log_, dt_bias_;  // [head]
  std::shared_ptr<Norm> norm_;
  Point hook_qkv_, hook_q_, hook_k_, hook_v_, hook_beta_, hook_decay_, hook_state_, hook_gate_, hook_out_,
      hook_gated_;
};

}  // namespace hooked
