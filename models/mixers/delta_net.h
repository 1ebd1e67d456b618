#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "models/graph/norm.h"
#include "models/graph/token_mixer.h"
#include "models/mixers/delta_rule.h"

namespace hooked {

/// A gated delta net (Yang et al. 2024) instead of attention. See DeltaNet in model_parts.h.
class DeltaNetMixer : public TokenMixer {
 public:
  explicit DeltaNetMixer(const GraphContext& context);

  at::Tensor forward(const AttentionInput& input, const StackInputs& stack, Run& run) const override;
  KeyForm key_form(const WatchPlan& plan) const override;
  KeysAndValues in_form(const KeysAndValues& columns, KeyForm form, Memory memory) const override;
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
