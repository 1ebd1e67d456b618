#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/attention/heads.h"
#include "models/attention/latent_projection.h"
#include "models/attention/relative_bias.h"
#include "models/attention/tiled_attention.h"
#include "models/graph/graph.h"
#include "models/graph/norm.h"
#include "models/graph/token_mixer.h"
#include "models/sequence/run.h"
#include "models/sequence/stack_inputs.h"

namespace hooked {

/// What the queries of an attention attend to.
enum class Attends : std::uint8_t {
  own_tokens,  ///< keys and values come from the same tokens as the queries
  encoder,     ///< cross-attention: keys and values come from the encoder's output
};

/// Multi-head, grouped-query or multi-query attention (Vaswani et al. 2017; Ainslie et al. 2023).
///
/// Uses LibTorch's fused kernel if it is suitable. Otherwise queries are taken in tiles, and whole scores and
/// patterns exist only if they are watched.
class Attention : public TokenMixer {
 public:
  explicit Attention(const GraphContext& context, Attends attends = Attends::own_tokens);

  /// What attention writes, before any output norm: [batch, pos, d_model].
  at::Tensor forward(const AttentionInput& input, const StackInputs& stack, Run& run) const override;

  /// What all layers of the stack add to their scores. Defined in the first block of a stack whose blocks
  /// share their relative positions.
  ScoreBias relative_bias(const Sequence& sequence, Run& run) const;

  /// The form in which keys are remembered if all runs that read them are watched like this: latents if
  /// nobody may change the keys and values made from these.
  KeyForm key_form(const WatchPlan& plan) const override;
  /// Remembered columns as keys and values of heads; never the other way round.
  KeysAndValues in_form(const KeysAndValues& columns, KeyForm form, Memory memory) const override;

  WeightSlots slots(const std::string& path) const override;

 private:
  using Segments = std::vector<KeysAndValues>;

  // Whether keys or values are watched; with `how`, only watches for which it is true count.
  using KeysWatched = bool (WatchPlan::PointPlan::*)() const noexcept;
  bool watches_keys(const WatchPlan& plan, KeysWatched how = nullptr) const;
  // For latent attention: how this run reads and remembers keys.
  std::optional<LatentKeys> latent_keys(const Sequence& sequence, Run& run) const;
  at::Tensor forward_cross(const AttentionInput& input, const CrossInputs& cross, Run& run) const;
  // What edits replace all queries, keys and values by, or z, if nothing that leads to them is needed.
  std::optional<Heads> replaced_heads(const AttentionInput& input, const Run& run) const;
  at::Tensor replaced_z(const AttentionInput& input, const StackInputs& stack, const Run& run) const;
  // For one part of the sequence: everything its queries attend to; `own` are its heads.
  Segments keys_of_part(std::size_t part, const Heads& own, const LatentKeys* latents,
                        const StackInputs& stack, Run& run) const;
  // For all parts of the sequence: z [batch, pos, head, d_value] at the requested columns. `latents` is null
  // if keys and values have no latents.
  at::Tensor attend_parts(const Heads& heads, const LatentKeys* latents, const LayerInputs& layer,
                          const StackInputs& stack, Run& run) const;
  // Keys and values of the layer whose keys this one shares, of all columns of one part, on its device.
  Segments borrowed(std::size_t part, Run& run) const;
  // The inputs of this layer's attention, if it adds its own relative positions to the scores.
  std::optional<LayerInputs> own_inputs(const StackInputs& stack, Run& run) const;
  // `q` is [batch, pos, head, d_head], and so is z, with the values' width.
  at::Tensor attend(const at::Tensor& q, const Segments& attended, const LayerKind& kind, Run& run) const;
  at::Tensor attend_explicitly(const at::Tensor& q, const Segments& attended, const ScoreRules& rules,
                               Run& run) const;
  /// Mixed values of the requested columns, times the sigmoid of their gate if heads are gated.
  at::Tensor gated(const at::Tensor& mixed, const AttentionInput& input, const StackInputs& stack,
                   Run& run) const;
  at::Tensor write(const at::Tensor& z, Run& run) const;

  const ModelConfig& config_;
  Attends attends_;
  std::int64_t layer_, kv_heads_, d_head_, d_value_;  // those of its layer
  std::int64_t key_layer_;  // the layer whose keys and values it attends with: its own or an earlier one
  bool lends_keys_;         // later layers attend with its keys and values
  std::size_t block_;       // the first point of its block
  double scale_;            // scores are multiplied by it
  std::unique_ptr<const HeadProjection> projection_;
  const LatentProjection* latents_ = nullptr;  // the same, if keys and values are made from latents
  Matrix W_G_;                                 // [head * d_head, d_model]; undefined without gates
  at::Tensor b_G_;                             // [head * d_head]; undefined without one
  Matrix W_O_;                                 // [d_model, head * d_head]
  at::Tensor b_O_;                             // [d_model]
  at::Tensor sinks_, zero_;                    // [head] and [1]; undefined without sinks
  std::shared_ptr<Norm> q_norm_, k_norm_, v_norm_;
  std::optional<RelativeBias> relative_bias_;  // in the first block of a stack, or in every one
  Point hook_q_, hook_k_, hook_v_, hook_rot_q_, hook_rot_k_, hook_attn_scores_, hook_pattern_, hook_gate_,
      hook_z_, hook_result_;
};

}  // namespace hooked
