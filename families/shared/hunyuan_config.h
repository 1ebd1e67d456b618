#pragma once

#include <vector>

#include "families/shared/llama_layout.h"

namespace hooked {

/// What Hunyuan's dense models and mixtures share: Llama with norms of queries and keys after rotary.
ModelConfig read_hunyuan_config(HfConfig& hf);

/// `self_attn.{q,k,v,o}_proj` with `query_layernorm` and `key_layernorm`.
void add_hunyuan_attention(Recipes& recipes);

/// The layout of the dense models.
std::vector<TensorRecipe> hunyuan_recipes(const ModelConfig& config);

}  // namespace hooked
