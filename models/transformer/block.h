#pragma once

#include <memory>
#include <string>

#include "models/attention/attention.h"
#include "models/graph/graph.h"
#include "models/graph/norm.h"
#include "models/mlp/mlp.h"
#include "models/sequence/run.h"
#include "models/transformer/layer_input.h"

namespace hooked {

/// One transformer block, composed as the config says: the places of its norms, serial or parallel, with an
/// MLP, a mixture of experts or neither, reading an encoder or not.
class Block : public torch::nn::Module {
 public:
  explicit Block(const GraphContext& context);

  /// The residual stream [batch, pos, d_model] after the block.
  at::Tensor forward(at::Tensor resid, const StackInputs& stack, Run& run) const;

  /// What all layers of the stack add to their scores: see Attention::relative_bias.
  ScoreBias relative_bias(const Sequence& sequence, Run& run) const {
    return attn_ ? attn_->relative_bias(sequence, run) : ScoreBias();
  }

  /// The block's token mixer.
  const TokenMixer& mixer() const { return *mixer_; }

  /// The first point of the block.
  std::size_t first_point() const { return hook_resid_pre_->number(); }

  WeightSlots slots(const std::string& path) const;

 private:
  /// The tensor by which an edit replaces the whole value of `point`, which is like the stream `resid`, if
  /// nobody watches what leads to it after the point `after`; else undefined.
  static at::Tensor replaced(const Point& point, const Point& after, const at::Tensor& resid, const Run& run);
  /// The same if attention leads to it; undefined if its keys are kept, as these must be computed.
  at::Tensor replaced_with_attention(const Point& point, const at::Tensor& resid, const StackInputs& stack,
                                     const Run& run) const;
  /// What attention, or its replacement, adds to the stream.
  at::Tensor attention_branch(const at::Tensor& resid, const StackInputs& stack, Run& run) const;
  /// What cross-attention adds to the stream.
  at::Tensor cross_attention_branch(const at::Tensor& resid, const StackInputs& stack, Run& run) const;
  /// What the MLP adds to the stream.
  at::Tensor mlp_branch(const at::Tensor& resid, Run& run) const;
  /// The block with norms after the additions.
  at::Tensor forward_post_norm(const at::Tensor& resid, const StackInputs& stack, Run& run) const;

  /// After the sum with the MLP: adds the per-layer input branch and applies the layer scale, if the model
  /// has them, then fires resid_post.
  at::Tensor finish_block(at::Tensor sum, const StackInputs& stack, Run& run) const;

  AttentionInput read_stream(const at::Tensor& resid, Run& run) const;

  const ModelConfig& config_;
  std::int64_t layer_;
  bool lends_keys_;           // later layers attend with its keys and values
  bool reads_through_norms_;  // else norms are on the stream itself
  std::shared_ptr<Norm> ln1_, ln2_, ln3_, ln1_post_, ln2_post_;
  std::shared_ptr<Norm> mlp_norm_;         // before the MLP: ln2, in decoder blocks ln3; null without norms
  std::shared_ptr<TokenMixer> mixer_;      // attention, or its replacement
  std::shared_ptr<Attention> attn_;        // the same, if it is attention, else null
  std::shared_ptr<Attention> cross_attn_;  // in decoder blocks, else null
  std::shared_ptr<FeedForward> mlp_;
  std::shared_ptr<LayerInputBranch> layer_input_;  // null without per-layer embeddings
  at::Tensor resid_scale_;                         // [1]; undefined without layer_scale
  Point hook_resid_pre_, hook_attn_in_, hook_q_input_, hook_k_input_, hook_v_input_, hook_attn_out_,
      hook_resid_mid_, hook_cross_attn_in_, hook_cross_attn_out_, hook_resid_mid_cross_, hook_mlp_in_,
      hook_mlp_out_, hook_resid_mid_mlp_, hook_layer_input_out_, hook_resid_sum_, hook_resid_post_,
      hook_normalized_resid_post_;
};

}  // namespace hooked
