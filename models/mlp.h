#pragma once

#include <memory>
#include <string>

#include "models/graph.h"
#include "models/norm.h"
#include "models/ops.h"
#include "models/run.h"

namespace hooked {

/// The feed-forward sublayer, plain or gated (Shazeer 2020), optionally with a LayerNorm over the neurons.
class Mlp : public torch::nn::Module {
 public:
  explicit Mlp(const GraphContext& context);

  /// `x` and the result are [batch, pos, d_model].
  at::Tensor forward(const at::Tensor& x, Run& run) const;

  WeightSlots slots(const std::string& path) const;

 private:
  at::Tensor plain(const at::Tensor& x, Run& run) const;
  at::Tensor gated(const at::Tensor& x, Run& run) const;
  at::Tensor activate(const at::Tensor& pre, const Run& run) const;

  const ModelConfig& config_;
  at::Tensor W_in_;       // [d_mlp, d_model]; gated: gate rows, then up rows, [2 d_mlp, d_model]
  at::Tensor b_in_;       // [d_mlp] or [2 d_mlp]; undefined without, or when it is added after the product
  at::Tensor b_product_;  // [d_mlp], added after the product of gate and up
  at::Tensor W_out_;      // [d_model, d_mlp]
  at::Tensor b_out_;      // [d_model]
  ops::Xielu xielu_;      // undefined for other activations
  std::shared_ptr<Norm> ln_;
  Point hook_pre_, hook_pre_linear_, hook_mid_, hook_post_;
};

}  // namespace hooked
