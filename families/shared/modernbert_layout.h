#pragma once

#include <functional>
#include <string_view>

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked {

/// The config of ModernBERT or of its decoder except their directions and windows: rotary positions with
/// another base for windowed layers, gated MLPs, a norm of the embedding instead of the first layer's, and a
/// head. `local_attention` counts the keys of both directions. Half of it is the reach, from which
/// `window_of` computes the size of a window.
ModelConfig read_modernbert_config(HfConfig& hf,
                                   const std::function<std::int64_t(std::int64_t reach)>& window_of);

/// The tensors that both have under the same names, except queries, keys and values, which `add_heads` reads.
/// The head is a layer and a norm in `head`, before the unembedding `decoder`.
std::vector<TensorRecipe> modernbert_recipes(const ModelConfig& config, const HfConfig& hf,
                                             std::string_view head,
                                             const std::function<void(Recipes&)>& add_heads);

}  // namespace hooked
