#pragma once

#include <vector>

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked {

/// Granite's multipliers on embedding, scores and logits; refuses an invalid one on sublayers.
void read_granite_multipliers(HfConfig& hf, ModelConfig& config);

/// The multiplier on each sublayer's output to the stream, which goes into the weights that write it.
double granite_residual_scale(const HfConfig& hf);

/// The MLPs of a Granite with mixtures of experts.
struct GraniteMlps {
  std::int64_t d_shared = 0;         ///< width of the MLP in addition to the experts; 0: there is none
  bool may_have_no_experts = false;  ///< whether 0 experts mean that there is only this MLP
};

/// The config of a Granite with mixtures of experts, without positions.
ModelConfig read_granite_mixture_config(HfConfig& hf, const GraniteMlps& mlps);
/// Its tensors: experts under `block_sparse_moe`, the additional MLP under `shared_mlp`.
std::vector<TensorRecipe> granite_mixture_recipes(const ModelConfig& config, const HfConfig& hf);

}  // namespace hooked
