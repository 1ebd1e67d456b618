#pragma once

#include <memory>
#include <string>

#include "models/graph/graph.h"
#include "models/graph/norm.h"
#include "models/sequence/run.h"

namespace hooked {

/// `rows` [1 or batch, pos, d_model] after the hooks of `point`: with the sizes of `like` if the point is
/// watched, else unchanged.
at::Tensor see_rows(const HookPoint& point, const at::Tensor& rows, const at::Tensor& like, Run& run);

/// Token embedding and what goes with it: from tokens to residual stream.
class Embed : public torch::nn::Module {
 public:
  explicit Embed(const GraphContext& context);

  /// `tokens` [batch, pos] int64 to [batch, pos, d_model], before any positions.
  at::Tensor forward(const at::Tensor& tokens, Run& run) const;

  /// The same for the decoder of an encoder-decoder; the embedding's points belong to the encoder.
  at::Tensor without_points(const at::Tensor& tokens, Run& run) const;

  /// For models whose sum of embeddings is normed or has token types: `sum` of tokens and positions [batch,
  /// pos, d_model] plus the embedded types of the run's tokens, normed if the model norms it.
  at::Tensor finish_sum(const at::Tensor& sum, Run& run) const;

  const Matrix& W_E() const noexcept { return W_E_; }
  WeightSlots slots(const std::string& path) const;

 private:
  at::Tensor scaled_rows(const at::Tensor& tokens) const;

  const ModelConfig& config_;
  Matrix W_E_;               // [vocab, d_model]
  at::Tensor W_token_type_;  // [token type, d_model], undefined without token types
  at::Tensor scale_;         // factor of the embedding, a number in the weights' dtype; undefined for 1
  std::shared_ptr<Norm> ln_;
  Point hook_token_type_embed_;
};

/// What a decoder with an encoder adds to the embedding that both share, and how it norms the sum. Its first
/// resid_pre shows the result; the points of the embedding are the encoder's.
class DecoderEmbed : public torch::nn::Module {
 public:
  explicit DecoderEmbed(const GraphContext& context);

  /// `tokens` [batch, pos, d_model], embedded, and their `positions` [1 or batch, pos, d_model].
  at::Tensor forward(const at::Tensor& tokens, const at::Tensor& positions, const Run& run) const;

  const at::Tensor& W_pos() const noexcept { return W_pos_; }
  WeightSlots slots(const std::string& path) const;

 private:
  at::Tensor W_pos_;          // [n_ctx, d_model]
  std::shared_ptr<Norm> ln_;  // null if the sum is not normed
};

}  // namespace hooked
