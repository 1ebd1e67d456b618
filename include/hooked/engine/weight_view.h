#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace hooked {

struct LoadedModel;

/// The weights of a model by the papers' names, as views of the packed storage: no copies, do not write to
/// them.
///
/// Layers may be negative. A weight that the model does not have throws ConfigError naming the config field.
class WeightView {
 public:
  explicit WeightView(std::shared_ptr<const LoadedModel> model) : model_(std::move(model)) {}

  at::Tensor W_E() const;           ///< [vocab, d_model]
  at::Tensor W_pos() const;         ///< [pos, d_model]
  at::Tensor W_token_type() const;  ///< [token type, d_model], models with token types only
  at::Tensor W_U() const;           ///< [d_model, vocab]
  at::Tensor b_U() const;           ///< [vocab]; zeros when the model has none

  at::Tensor W_mlm() const;  ///< [d_model, d_model], models with a masked-LM head only
  at::Tensor b_mlm() const;  ///< [d_model], models with a masked-LM head only

  at::Tensor W_Q(std::int64_t layer) const;                     ///< [head, d_model, d_head]
  at::Tensor W_K(std::int64_t layer) const;                     ///< [kv_head, d_model, d_head]
  at::Tensor W_V(std::int64_t layer) const;                     ///< [kv_head, d_model, d_head]
  at::Tensor W_O(std::int64_t layer) const;                     ///< [head, d_head, d_model]
  at::Tensor W_Q(std::int64_t layer, std::int64_t head) const;  ///< [d_model, d_head]
  at::Tensor W_K(std::int64_t layer, std::int64_t head) const;  ///< [d_model, d_head] of the head's kv_head
  at::Tensor W_V(std::int64_t layer, std::int64_t head) const;  ///< [d_model, d_head] of the head's kv_head
  at::Tensor W_O(std::int64_t layer, std::int64_t head) const;  ///< [d_head, d_model]
  at::Tensor b_Q(std::int64_t layer) const;  ///< [head, d_head]; biases are zeros when the model has none
  at::Tensor b_K(std::int64_t layer) const;  ///< [kv_head, d_head]
  at::Tensor b_V(std::int64_t layer) const;  ///< [kv_head, d_head]
  at::Tensor b_O(std::int64_t layer) const;  ///< [d_model]

  /// Of latent attention, in DeepSeek-V2's words: to the latents, from them, and to the keys' shared part.
  /// There W_Q, W_K, W_V and their biases do not exist (W_Q and b_Q do where queries have no latent): a norm
  /// stands between the two maps, so no one matrix is their product.
  at::Tensor W_DQ(std::int64_t layer) const;   ///< [d_model, latent]
  at::Tensor W_UQ(std::int64_t layer) const;   ///< [head, latent, d_head]
  at::Tensor W_DKV(std::int64_t layer) const;  ///< [d_model, latent]
  at::Tensor W_UK(std::int64_t layer) const;   ///< [head, latent, d_head] of the part without the shared one
  at::Tensor W_UV(std::int64_t layer) const;   ///< [head, latent, d_head]
  at::Tensor W_KR(std::int64_t layer) const;   ///< [d_model, d_head] of the shared part

  at::Tensor W_in(std::int64_t layer) const;    ///< [d_model, d_mlp]; these five of ordinary MLPs only
  at::Tensor W_gate(std::int64_t layer) const;  ///< [d_model, d_mlp], gated MLPs only
  at::Tensor W_out(std::int64_t layer) const;   ///< [d_mlp, d_model]
  at::Tensor b_in(std::int64_t layer) const;    ///< [d_mlp]
  at::Tensor b_out(std::int64_t layer) const;   ///< [d_model]

  at::Tensor W_router(std::int64_t layer) const;                     ///< [d_model, expert], of a mixture
  at::Tensor W_in(std::int64_t layer, std::int64_t expert) const;    ///< [d_model, d_mlp] of one expert
  at::Tensor W_gate(std::int64_t layer, std::int64_t expert) const;  ///< [d_model, d_mlp] of one expert
  at::Tensor W_out(std::int64_t layer, std::int64_t expert) const;   ///< [d_mlp, d_model] of one expert

 private:
  std::shared_ptr<const LoadedModel> model_;
};

}  // namespace hooked
