#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/graph/graph.h"
#include "models/graph/norm.h"
#include "models/mlp/mlp.h"
#include "models/mlp/stacked_experts.h"
#include "models/sequence/run.h"

namespace hooked {

/// A mixture of experts (Shazeer et al. 2017; Fedus et al. 2021): each token goes to the few experts that the
/// router chooses for it, and gets the weighted sum of their outputs.
///
/// If the mixture has its own norms (Experts::own_norms), the router and the experts read the stream through
/// these, and only the shared expert reads the output of the block's norm.
///
/// Padding goes to no expert. How many tokens each expert gets is data. On the CPU, only experts with tokens
/// or with a watched point compute. Elsewhere the host would have to wait for the counts: all experts compute
/// as one, and nobody counts (StackedExperts). They compute one by one, after a wait, only if a point of
/// theirs is watched, and in training.
class MixtureMlp : public FeedForward {
 public:
  explicit MixtureMlp(const GraphContext& context);

  at::Tensor forward(const FeedForwardInput& input, Run& run) const override;
  WeightSlots slots(const std::string& path) const override;

 private:
  /// The experts of each token by rank, and the factors of their outputs.
  struct Routing {
    at::Tensor experts;  // [batch, pos, rank] int64
    at::Tensor weights;  // [batch, pos, rank]
  };
  /// The router's weights of all experts (zero if they exist only for the chosen ones) and its choice.
  struct Choice {
    at::Tensor weights;  // [batch, pos, expert]
    at::Tensor experts;  // [batch, pos, rank] int64; undefined if the weights decide
    at::Tensor ranked;   // [batch, pos, rank]: the weights of the chosen; undefined if not at hand
  };

  Routing route(const at::Tensor& x, Run& run) const;
  /// The router's logits [batch, pos, expert], in float32 or better.
  at::Tensor logits(const at::Tensor& x, Run& run) const;
  /// Without the weights of all experts if nobody wants them and they follow from those of the chosen.
  Choice choose(const at::Tensor& logits, bool all_wanted) const;
  /// The experts to which weights [batch, pos, expert] send a token; their weights, if the choice shows
  /// them.
  Choice chosen_by(const at::Tensor& weights) const;
  /// Adds the mixture's own norms.
  void add_norms(const GraphContext& context);
  /// `ranked` divided by its sum.
  at::Tensor renormalised(const at::Tensor& ranked, const Run& run) const;
  /// `ranking` [batch, pos, expert] with -inf for experts outside the best groups.
  at::Tensor within_best_groups(const at::Tensor& ranking) const;
  Choice mix_sparsely(const at::Tensor& logits) const;
  /// The sum of the experts' outputs, [token, d_model], for tokens [token, d_model].
  at::Tensor routed(const at::Tensor& tokens, const Routing& routing, Run& run) const;
  /// The same, expert by expert, using the count of each one's tokens.
  at::Tensor one_by_one(const at::Tensor& tokens, const Routing& routing, Run& run) const;
  /// Whether the experts may compute as one.
  bool as_one(const Run& run) const;
  at::Tensor shared(const at::Tensor& x, Run& run) const;

  const ModelConfig& config_;
  Matrix W_gate_;            // [expert, d_model]
  at::Tensor b_gate_;        // [expert]; undefined without one
  at::Tensor choice_bias_;   // [expert]; undefined without one
  at::Tensor expert_scale_;  // [expert]; undefined without one
  std::shared_ptr<Norm> router_ln_, experts_ln_, experts_ln_post_, shared_ln_post_;  // null without them
  std::vector<std::shared_ptr<Mlp>> experts_;
  std::optional<StackedExperts> stacked_;  // their weights, on devices other than the CPU
  std::shared_ptr<Mlp> shared_expert_;
  at::Tensor W_shared_gate_;  // [one, d_model]; undefined without one
  at::Tensor b_shared_gate_;  // [one]; undefined without one
  Point hook_in_, hook_expert_weights_, hook_expert_indices_, hook_shared_weight_;
};

}  // namespace hooked
