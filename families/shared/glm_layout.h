#pragma once

#include "families/shared/llama_layout.h"

namespace hooked {

/// GLM 4: biases on queries, keys and values, partial rotary in adjacent pairs.
ModelConfig read_glm_config(HfConfig& hf);

/// The MLP, with gate and up projection in one.
void add_glm_mlp(Recipes& recipes);

}  // namespace hooked
