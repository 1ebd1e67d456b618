#pragma once

#include <memory>
#include <string>

#include "models/graph.h"
#include "models/head_projection.h"
#include "models/norm.h"

namespace hooked {

/// Heads from latents (DeepSeek-AI 2024, DeepSeek-V2): one product makes all that is read from the stream,
/// and after the latents' norms one for the queries and one for the keys' own part and the values.
class LatentProjection : public HeadProjection {
 public:
  LatentProjection(torch::nn::Module& attention, const GraphContext& context);

  Heads project(const AttentionInput& input, Run& run) const override;
  WeightSlots slots(const std::string& path) const override;

 private:
  /// Width of what queries are, or are made from: their latent, or all heads.
  std::int64_t query_width() const;

  const ModelConfig& config_;
  Matrix W_down_;  // [(latent of queries, or head * d_head) + latent of keys and values + shared, d_model]
  at::Tensor b_down_;  // the same without d_model; undefined without
  Matrix W_UQ_;        // [head * d_head, latent]; undefined where queries have no latent
  Matrix W_UKV_;       // [head * (own part of d_head), then head * (width of values), latent]
  std::shared_ptr<Norm> q_norm_, kv_norm_;
  Point hook_q_latent_, hook_kv_latent_, hook_k_shared_;
};

}  // namespace hooked
