#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "hooked/core/block_place.h"
#include "hooked/core/export.h"
#include "hooked/core/shared.h"

namespace HOOKED_EXPORT hooked {

struct LoadedModel;

/// The gain of a norm, and its bias if it has one (else undefined).
struct NormWeights {
  at::Tensor w;  ///< the gain
  at::Tensor b;  ///< the bias
};

/// The weights of a model by the papers' names. Each is found in constant time. Matrices that are stored in
/// another order than their names say, for faster products, are copied. Everything else is a view of the
/// storage: do not write to it.
///
/// Layers are those of the stack that predicts, `encoder()` has the other's; they may be negative. Biases are
/// zeros if the model has none. Weights without a function here (gates' biases, norms after sublayers, norms
/// of queries and keys, biases of routers and experts) are read by name. Without a layer, the matrices or
/// biases of all layers are stacked, which copies them. A weight that the model does not have throws
/// ConfigError saying which models do.
class WeightView {
 public:
  /// For the engine: the weights of the stack that predicts.
  explicit WeightView(std::shared_ptr<const LoadedModel> model);

  /// The same with the layers of an encoder-decoder's encoder.
  WeightView encoder() const;
  /// The same with W_Q to b_O of the decoder's cross-attention.
  WeightView cross_attention() const;

  /// Any weight, by its name in the state dict: `blocks.3.ln1_post.w`.
  at::Tensor operator[](std::string_view name) const;

  at::Tensor W_E() const;           ///< [vocab, d_model]
  at::Tensor W_pos() const;         ///< [pos, d_model]
  at::Tensor W_token_type() const;  ///< [token type, d_model], models with token types only
  at::Tensor W_U() const;           ///< [d_model, vocab]
  at::Tensor b_U() const;           ///< [vocab]

  at::Tensor W_mlm() const;  ///< [d_model, d_model], models with a masked-LM head only
  at::Tensor b_mlm() const;  ///< [d_model], models with a masked-LM head only

  /// Norms [d_model], for models whose norms are not folded. In a decoder of two stacks ln2 is before
  /// cross-attention and ln3 before the MLP. ln_final is the encoder's last norm on `encoder()`.
  NormWeights ln1(std::int64_t layer) const;
  NormWeights ln2(std::int64_t layer) const;  ///< as ln1
  NormWeights ln3(std::int64_t layer) const;  ///< as ln1
  NormWeights ln_final() const;               ///< as ln1

  at::Tensor W_Q(std::int64_t layer) const;                     ///< [head, d_model, d_head]
  at::Tensor W_K(std::int64_t layer) const;                     ///< [kv_head, d_model, d_head]
  at::Tensor W_V(std::int64_t layer) const;                     ///< [kv_head, d_model, d_head]
  at::Tensor W_O(std::int64_t layer) const;                     ///< [head, d_head, d_model]
  at::Tensor W_Q(std::int64_t layer, std::int64_t head) const;  ///< [d_model, d_head]
  at::Tensor W_K(std::int64_t layer, std::int64_t head) const;  ///< [d_model, d_head] of the head's kv_head
  at::Tensor W_V(std::int64_t layer, std::int64_t head) const;  ///< [d_model, d_head] of the head's kv_head
  at::Tensor W_O(std::int64_t layer, std::int64_t head) const;  ///< [d_head, d_model]
  at::Tensor b_Q(std::int64_t layer) const;                     ///< [head, d_head]
  at::Tensor b_K(std::int64_t layer) const;                     ///< [kv_head, d_head]
  at::Tensor b_V(std::int64_t layer) const;                     ///< [kv_head, d_head]
  at::Tensor b_O(std::int64_t layer) const;                     ///< [d_model]

  at::Tensor W_Q() const;  ///< [layer, head, d_model, d_head]
  at::Tensor W_K() const;  ///< [layer, kv_head, d_model, d_head]
  at::Tensor W_V() const;  ///< [layer, kv_head, d_model, d_head]
  at::Tensor W_O() const;  ///< [layer, head, d_head, d_model]
  at::Tensor b_Q() const;  ///< [layer, head, d_head]
  at::Tensor b_K() const;  ///< [layer, kv_head, d_head]
  at::Tensor b_V() const;  ///< [layer, kv_head, d_head]
  at::Tensor b_O() const;  ///< [layer, d_model]

  /// For latent attention, in DeepSeek-V2's words: maps to the latents, from them, and to the shared part of
  /// keys. There W_Q, W_K, W_V and their biases do not exist (W_Q and b_Q do if queries have no latent):
  /// there is a norm between the two maps, so no single matrix is their product.
  at::Tensor W_DQ(std::int64_t layer) const;   ///< [d_model, latent]
  at::Tensor W_UQ(std::int64_t layer) const;   ///< [head, latent, d_head]
  at::Tensor W_DKV(std::int64_t layer) const;  ///< [d_model, latent]
  at::Tensor W_UK(std::int64_t layer) const;   ///< [head, latent, d_head] for the part that is not shared
  at::Tensor W_UV(std::int64_t layer) const;   ///< [head, latent, d_head]
  at::Tensor W_KR(std::int64_t layer) const;   ///< [d_model, d_head] for the shared part

  at::Tensor W_in(std::int64_t layer) const;    ///< [d_model, d_mlp]; these five of ordinary MLPs only
  at::Tensor W_gate(std::int64_t layer) const;  ///< [d_model, d_mlp], gated MLPs only
  at::Tensor W_out(std::int64_t layer) const;   ///< [d_mlp, d_model]
  at::Tensor b_in(std::int64_t layer) const;    ///< [d_mlp]
  at::Tensor b_out(std::int64_t layer) const;   ///< [d_model]

  at::Tensor W_in() const;    ///< [layer, d_model, d_mlp]; models whose layers all have an ordinary MLP
  at::Tensor W_gate() const;  ///< [layer, d_model, d_mlp]
  at::Tensor W_out() const;   ///< [layer, d_mlp, d_model]
  at::Tensor b_in() const;    ///< [layer, d_mlp]
  at::Tensor b_out() const;   ///< [layer, d_model]

  at::Tensor W_router(std::int64_t layer) const;                     ///< [d_model, expert], of a mixture
  at::Tensor W_in(std::int64_t layer, std::int64_t expert) const;    ///< [d_model, d_mlp] of one expert
  at::Tensor W_gate(std::int64_t layer, std::int64_t expert) const;  ///< [d_model, d_mlp] of one expert
  at::Tensor W_out(std::int64_t layer, std::int64_t expert) const;   ///< [d_mlp, d_model] of one expert
  at::Tensor W_in_shared(std::int64_t layer) const;    ///< [d_model, d_mlp] of the shared expert
  at::Tensor W_gate_shared(std::int64_t layer) const;  ///< [d_model, d_mlp] of the shared expert
  at::Tensor W_out_shared(std::int64_t layer) const;   ///< [d_mlp, d_model] of the shared expert

 private:
  using OfLayer = at::Tensor (WeightView::*)(std::int64_t layer) const;

  BlockPlace place(std::int64_t layer) const;
  std::int64_t checked_head(std::int64_t head) const;
  std::int64_t kv_head_of(std::int64_t layer, std::int64_t head) const;
  at::Tensor in_layer(std::int64_t layer, std::string_view local_name) const;
  at::Tensor of_attention(std::int64_t layer, std::string_view leaf) const;
  at::Tensor of_expert(std::int64_t layer, std::int64_t expert, std::string_view matrix) const;
  NormWeights norm(std::int64_t layer, std::string_view local_name) const;
  at::Tensor of_all_layers(OfLayer weight) const;

  Shared<const LoadedModel> model_;
  Stack stack_;
  std::string_view attention_ = "attn";
};

}  // namespace hooked
