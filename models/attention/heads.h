#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "models/graph/graph.h"
#include "models/graph/token_mixer.h"
#include "models/sequence/rotary.h"
#include "models/sequence/run.h"

namespace hooked {

/// Queries, keys and values before their norms and rotary.
struct Heads {
  at::Tensor q;            ///< [batch, pos, head, d_head]
  at::Tensor k;            ///< [batch, pos, kv_head, d_head]; undefined if latents are used instead
  at::Tensor v;            ///< the same; latent attention gives them a width of their own
  at::Tensor latent = {};  ///< latent attention: what keys and values are made from, [batch, pos, kv_latent]
  at::Tensor shared = {};  ///< [batch, pos, 1, d_shared_key]: the part that keys share; undefined without one
};

/// How attention makes heads from its input. Its parameters and points are registered in the attention module
/// that owns it.
class HeadProjection {
 public:
  virtual ~HeadProjection() = default;

  virtual Heads project(const AttentionInput& input, Run& run) const = 0;

  /// `path` is the attention's path in the state dict (`blocks.0.attn`).
  virtual WeightSlots slots(const std::string& path) const = 0;
};

/// Heads straight from the stream: one product with packed weights.
class StreamProjection : public HeadProjection {
 public:
  StreamProjection(torch::nn::Module& attention, const GraphContext& context);

  Heads project(const AttentionInput& input, Run& run) const override;
  WeightSlots slots(const std::string& path) const override;

 private:
  at::Tensor branch(const at::Tensor& input, std::int64_t first_head, std::int64_t heads,
                    const Run& run) const;

  const ModelConfig& config_;
  std::int64_t kv_heads_;  // of its layer; 0 if it shares the keys and values of another
  std::int64_t d_head_;    // of its layer
  Matrix W_QKV_;           // [(head + 2 kv_head) * d_head, d_model]
  at::Tensor b_QKV_;       // [(head + 2 kv_head) * d_head]; undefined without one
};

/// `x` [batch, pos, head, width], rotated by the angles of its positions. Gradients are rotated back.
at::Tensor turned(const at::Tensor& x, const RotaryAngles& angles, const RotaryPositions& rotary,
                  const Run& run);

/// Rotates queries, and keys if there are any.
void turn(Heads& heads, const RotaryAngles& angles, const RotaryPositions& rotary, const Run& run);

}  // namespace hooked
