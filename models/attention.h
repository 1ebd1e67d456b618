#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/graph.h"
#include "models/head_projection.h"
#include "models/norm.h"
#include "models/run.h"

namespace hooked {

/// Multi-head, grouped-query or multi-query attention (Vaswani et al. 2017; Ainslie et al. 2023).
///
/// Scores and pattern exist only while watched, or when the config needs them (soft cap, sinks); otherwise
/// the fused kernel runs.
class Attention : public torch::nn::Module {
 public:
  explicit Attention(const GraphContext& context);

  /// What attention writes, before any output norm: [batch, pos, d_model].
  at::Tensor forward(const AttentionInput& input, Run& run) const;

  /// Adds this module's slots; `path` is its place in the state dict (`blocks.0.attn`).
  WeightSlots slots(const std::string& path) const;

 private:
  using Stretches = std::vector<KeysAndValues>;

  // `q` is [batch, pos, head, d_head], and z as well, with the values' width.
  at::Tensor attend(const at::Tensor& q, const Stretches& attended, Run& run) const;
  /// Probabilities over keys of scores [batch, head, query, key]; rows that see nothing are zero.
  at::Tensor probabilities(const at::Tensor& scores, Run& run) const;
  at::Tensor attend_explicitly(const at::Tensor& q, const Stretches& attended, Run& run) const;
  at::Tensor attend_fused(const at::Tensor& q, const KeysAndValues& attended,
                          const Run::LayerKind& kind) const;
  at::Tensor write(const at::Tensor& z, Run& run) const;

  const ModelConfig& config_;
  std::int64_t layer_;
  double scale_;  // scores are multiplied by it
  LayerFrequencies frequencies_;
  std::unique_ptr<const HeadProjection> projection_;
  at::Tensor W_O_;    // [d_model, head * d_head]
  at::Tensor b_O_;    // [d_model]
  at::Tensor sinks_;  // [head]; undefined without
  std::shared_ptr<Norm> q_norm_, k_norm_;
  Point hook_q_, hook_k_, hook_v_, hook_rot_q_, hook_rot_k_, hook_attn_scores_, hook_pattern_, hook_z_,
      hook_result_;
};

}  // namespace hooked
