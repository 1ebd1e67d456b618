#pragma once

#include <memory>
#include <string>

#include "models/feed_forward.h"
#include "models/graph.h"
#include "models/norm.h"
#include "models/ops.h"
#include "models/run.h"

namespace hooked {

/// What an MLP is within its block.
struct MlpPlace {
  std::int64_t width;  ///< neurons
  bool bias;
  Site pre, pre_linear, post;
  bool linear_names = false;  ///< in the state dict `W_in.weight` [out, in] and `W_in.bias`, as experts have
};

/// The ordinary MLP of a block.
MlpPlace dense_mlp(const ModelConfig& config);

/// The feed-forward sublayer, plain or gated (Shazeer 2020), optionally with a LayerNorm over the neurons.
class Mlp : public FeedForward {
 public:
  Mlp(const GraphContext& context, const MlpPlace& place);

  /// Whether somebody watches one of the points of a gated MLP.
  bool watched(const Run& run) const;

  /// `x` and the result are [.., d_model]; d_mlp below is the place's width.
  at::Tensor forward(const at::Tensor& x, Run& run) const override;

  WeightSlots slots(const std::string& path) const override;

 private:
  /// What the point `post` is shown.
  at::Tensor computed_post(const at::Tensor& x, Run& run) const;
  /// What an edit puts in place of all neurons at a point; else undefined.
  at::Tensor replacement(const Point& point, const at::Tensor& x, const Run& run) const;
  at::Tensor plain(const at::Tensor& x, Run& run) const;
  at::Tensor gated(const at::Tensor& x, Run& run) const;
  at::Tensor activate(const at::Tensor& pre, const Run& run) const;

  const ModelConfig& config_;
  MlpPlace place_;
  Matrix W_in_;           // [d_mlp, d_model]; gated: gate rows, then up rows, [2 d_mlp, d_model]
  at::Tensor b_in_;       // [d_mlp] or [2 d_mlp]; undefined without, or when it is added after the product
  at::Tensor b_product_;  // [d_mlp], added after the product of gate and up
  Matrix W_out_;          // [d_model, d_mlp]
  at::Tensor b_out_;      // [d_model]
  ops::Xielu xielu_;      // undefined for other activations
  std::shared_ptr<Norm> ln_;
  Point hook_pre_, hook_pre_linear_, hook_mid_, hook_post_;
};

}  // namespace hooked
