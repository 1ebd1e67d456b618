#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>

#include "hooks/recipe.h"
#include "models/graph/graph.h"
#include "models/graph/norm.h"
#include "models/ops/activations.h"
#include "models/sequence/run.h"

namespace hooked {

/// The input of a block's MLP, [batch, pos, d_model] each.
struct FeedForwardInput {
  at::Tensor stream;  ///< as hook_mlp_in shows it
  at::Tensor normed;  ///< the same after the block's norm; the stream itself without one
};

/// The MLP of a block: an ordinary one or a mixture of experts.
class FeedForward : public torch::nn::Module {
 public:
  /// What it adds to the stream, [batch, pos, d_model].
  virtual at::Tensor forward(const FeedForwardInput& input, Run& run) const = 0;

  virtual WeightSlots slots(const std::string& path) const = 0;
};

/// What an MLP is within its block.
struct MlpPlace {
  std::int64_t width;  ///< neurons
  bool bias;
  Site pre, pre_linear, post;
  std::optional<Site> in = {};  ///< the point of its input, if this config shows it
  bool linear_names = false;    ///< in the state dict `W_in.weight` [out, in] and `W_in.bias`, as for experts
};

/// The ordinary MLP of block `layer`.
MlpPlace dense_mlp(const ModelConfig& config, std::int64_t layer);

/// How neurons are computed from the input matrix's output: the activation function, and the rest of a gated
/// MLP.
struct Neurons {
  Activation activation;
  bool gated = false;
  double gate_limit = 0;  ///< 0 is off
  bool up_offset = false;

  /// Weights, if there are any.
  struct Weights {
    ops::Xielu xielu;
    at::Tensor b_product;  ///< [d_mlp], added to the product
  };
  /// `pre` and, for a gated MLP, `up` [.., d_mlp].
  at::Tensor operator()(at::Tensor pre, at::Tensor up, const Weights& weights, Memory memory) const;
};

/// The neurons of a model's MLPs and experts.
Neurons neurons_of(const ModelConfig& config);

/// The feed-forward sublayer, plain or gated (Shazeer 2020), optionally with a LayerNorm over the neurons.
class Mlp : public FeedForward {
 public:
  Mlp(const GraphContext& context, const MlpPlace& place);

  /// Whether somebody watches one of the points of a gated MLP.
  bool watched(const Run& run) const;

  at::Tensor forward(const FeedForwardInput& input, Run& run) const override {
    return forward(input.normed, run);
  }
  /// `x` and the result are [.., d_model]; d_mlp below is the place's width.
  at::Tensor forward(const at::Tensor& x, Run& run) const;

  WeightSlots slots(const std::string& path) const override;

 private:
  /// The input of W_out.
  at::Tensor neurons(const at::Tensor& x, Run& run) const;
  /// The tensor by which an edit replaces all neurons at a point; else undefined.
  at::Tensor replacement(const Point& point, const at::Tensor& x, const Run& run) const;
  /// How the neurons of a cache are computed.
  Recipe recipe(const ActivationName& name, const at::Tensor& pre, const at::Tensor& up,
                const Run& run) const;

  const ModelConfig& config_;
  MlpPlace place_;
  Neurons neurons_;
  Matrix W_in_;       // [d_mlp, d_model]; gated: gate rows, then up rows, [2 d_mlp, d_model]
  at::Tensor b_in_;   // [d_mlp] or [2 d_mlp]; undefined without one, or if it is added after the product
  Matrix W_out_;      // [d_model, d_mlp]
  at::Tensor b_out_;  // [d_model]
  Neurons::Weights weights_;
  std::shared_ptr<Norm> ln_;
  Point hook_in_, hook_pre_, hook_pre_linear_, hook_mid_, hook_post_;
};

}  // namespace hooked
