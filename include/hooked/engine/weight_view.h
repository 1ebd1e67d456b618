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
