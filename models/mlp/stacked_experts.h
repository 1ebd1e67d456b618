#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "models/mlp/expert_blocks.h"
#include "models/mlp/mlp.h"
#include "models/sequence/run.h"

namespace hooked {

/// The experts of a mixture as one: their weights lie side by side, and products of many experts are one
/// product. Whoever calls need not know which expert gets how many tokens (Note [Experts that nobody
/// counts]). Gated MLPs without points.
class StackedExperts {
 public:
  struct Weights {
    at::Tensor W_in;   ///< [expert, 2 d_expert, d_model]: gate rows, then up rows
    at::Tensor b_in;   ///< [expert, 2 d_expert]; undefined without
    at::Tensor W_out;  ///< [expert, d_model, d_expert]
    at::Tensor b_out;  ///< [expert, d_model]; undefined without
  };
  /// `in_groups`: see GraphContext::multiplies_groups.
  /// `weighted_inputs`: tokens are multiplied by their weights before their experts read them, else what is
  /// written.
  StackedExperts(Weights weights, Neurons neurons, bool in_groups, bool weighted_inputs = false);

  /// Who writes for whom.
  struct Chosen {
    at::Tensor experts;  ///< [token, rank] int64, each an expert's number
    at::Tensor weights;  ///< [token, rank]
  };
  /// The sum that each token takes, [token, d_model], of what its experts write for tokens [token, d_model],
  /// with their weights. `way`: absent for the fastest.
  at::Tensor forward(const at::Tensor& tokens, const Chosen& chosen, Memory memory,
                     std::optional<ExpertWay> way = std::nullopt) const;

 private:
  at::Tensor neurons(const at::Tensor& both, Memory memory) const;
  /// What is written in all blocks' rows, [row, d_model]. What is read is multiplied by `weights` [row, one]
  /// where they are defined.
  at::Tensor in_blocks(const at::Tensor& tokens, const ExpertBlocks& blocks, const at::Tensor& weights,
                       Memory memory) const;
  at::Tensor in_groups(const at::Tensor& tokens, const ExpertGroups& groups, const at::Tensor& weights,
                       Memory memory) const;
  /// Blocks whose intermediate results, and the matrices that are copied for them, take little memory.
  std::int64_t blocks_at_a_time(const ExpertBlocks& blocks) const;

  Weights weights_;
  Neurons neurons_;
  bool in_groups_;
  bool weighted_inputs_;
};

}  // namespace hooked
