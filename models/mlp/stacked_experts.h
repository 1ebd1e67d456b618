#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "models/mlp/expert_blocks.h"
#include "models/mlp/mlp.h"
#include "models/sequence/run.h"

namespace hooked {

/// The experts of a mixture as one: their weights are stored together, and products of many experts are one
/// product. Callers need not know how many tokens each expert gets (Note [Experts that nobody counts]). Gated
/// MLPs without points.
class StackedExperts {
 public:
  struct Weights {
    at::Tensor W_in;   ///< [expert, 2 d_expert, d_model]: gate rows, then up rows
    at::Tensor b_in;   ///< [expert, 2 d_expert]; undefined without one
    at::Tensor W_out;  ///< [expert, d_model, d_expert]
    at::Tensor b_out;  ///< [expert, d_model]; undefined without one
  };
  /// `in_groups`: see GraphContext::multiplies_groups.
  /// `weighted_inputs`: tokens are multiplied by their weights before their experts read them, else the
  /// experts' outputs are.
  StackedExperts(Weights weights, Neurons neurons, bool in_groups, bool weighted_inputs = false);

  /// Which experts write for which tokens.
  struct Chosen {
    at::Tensor experts;  ///< [token, rank] int64, each an expert's number
    at::Tensor weights;  ///< [token, rank]
  };
  /// The sum for each token, [token, d_model], of its experts' weighted outputs for tokens [token, d_model].
  /// `way`: absent for the fastest.
  at::Tensor forward(const at::Tensor& tokens, const Chosen& chosen, Memory memory,
                     std::optional<ExpertWay> way = std::nullopt) const;

 private:
  at::Tensor neurons(const at::Tensor& both, Memory memory) const;
  /// The outputs in all blocks' rows, [row, d_model]. If `weights` [row, one] are defined, they multiply the
  /// inputs.
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
