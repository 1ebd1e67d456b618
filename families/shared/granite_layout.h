#pragma once

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked {

/// Granite's multipliers on embedding, scores and logits; refuses one on sublayers that is not allowed.
void read_granite_multipliers(HfConfig& hf, ModelConfig& config);

/// The config of a decoder whose MLPs are mixtures, with a softmax over the chosen logits.
ModelConfig read_granite_mixture(HfConfig& hf);

/// The multiplier on what each sublayer writes to the stream, which goes into the weights that write it.
double granite_residual_scale(const HfConfig& hf);

/// The routed experts of a block, `block_sparse_moe`.
void add_granite_mixture(Recipes& recipes, double residual_scale);

}  // namespace hooked
