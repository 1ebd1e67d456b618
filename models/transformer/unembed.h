#pragma once

#include <memory>
#include <string>

#include "models/graph/graph.h"
#include "models/graph/norm.h"
#include "models/sequence/run.h"

namespace hooked {

/// What comes between the stream and the unembedding of masked language models (Devlin et al. 2019): a layer
/// with an activation, and a LayerNorm.
class MlmHead : public torch::nn::Module {
 public:
  explicit MlmHead(const GraphContext& context);

  /// `x` and the result are [batch, pos, d_model].
  at::Tensor forward(const at::Tensor& x, Run& run) const;

  WeightSlots slots(const std::string& path) const;

 private:
  Activation activation_;
  Matrix W_;      // [d_model out, d_model in]
  at::Tensor b_;  // [d_model]
  std::shared_ptr<Norm> ln_;
};

/// Residual stream to logits.
class Unembed : public torch::nn::Module {
 public:
  /// `W_E` is used when the unembedding is tied.
  Unembed(const Matrix& W_E, const GraphContext& context);

  /// `x` [batch, pos, d_model] to logits after any soft cap: [batch, pos, vocab], or only of these tokens
  /// [token] int64 if they are defined.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& tokens, Run& run) const;

  WeightSlots slots(const std::string& path) const;

 private:
  const ModelConfig& config_;
  Matrix W_U_;                  // [vocab, d_model]
  at::Tensor b_U_;              // [vocab]
  at::Tensor W_mean_, b_mean_;  // [d_model], [1]: subtracted from each logit; undefined: unknown
  Point hook_in_, hook_out_;
};

}  // namespace hooked
