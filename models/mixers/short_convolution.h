#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "models/graph/token_mixer.h"
#include "models/sequence/kv_cache.h"
#include "models/sequence/sequence.h"

namespace hooked {

/// A causal convolution over tokens, separately in each dimension: y[t] = sum over taps i of filter[i] x[t -
/// (taps - 1) + i], plus the bias. Tokens that do not exist count as zeros; padding does not count as a
/// token.
///
/// `columns` are all columns up to and including the run's own, [row or 1, 1, pos, d] each, from left to
/// right. The last `length` columns of the last tensor are the run's own, unless `earlier` says where tokens
/// are. `filter` [tap, d], `bias` [d] or undefined. Sums are in float32 or better. Returns [row, length, d].
at::Tensor causal_convolution(const std::vector<KeysAndValues>& columns, std::int64_t length,
                              const EarlierTokens& earlier, const at::Tensor& filter, const at::Tensor& bias);

/// A convolution over few tokens between two gates (LFM2, Liquid AI 2025), instead of attention: C times the
/// filtered B * x, times W_out. See ShortConvolution in model_parts.h.
class ShortConvolutionMixer : public TokenMixer {
 public:
  explicit ShortConvolutionMixer(const GraphContext& context);

  at::Tensor forward(const AttentionInput& input, const StackInputs& stack, Run& run) const override;
  KeyForm key_form(const WatchPlan& /*plan*/) const override { return KeyForm::convolved; }
  WeightSlots slots(const std::string& path) const override;

 private:
  /// The convolution over all parts of the sequence, [batch, pos, d_model] like `bx`, which it appends to the
  /// remembered columns.
  at::Tensor convolved(const at::Tensor& bx, const StackInputs& stack) const;

  const ModelConfig& config_;
  std::int64_t layer_;
  Matrix W_in_;             // [3 d_model, d_model]: the rows of B, of C and of x
  at::Tensor b_in_;         // [3 d_model]; undefined without one
  at::Tensor filter_;       // [tap, d_model], the oldest token's tap first
  at::Tensor filter_bias_;  // [d_model]; undefined without one
  Matrix W_out_;            // [d_model, d_model]
  at::Tensor b_out_;        // [d_model]; undefined without one
  Point hook_b_, hook_c_, hook_x_, hook_bx_, hook_conv_, hook_gated_;
};

}  // namespace hooked
