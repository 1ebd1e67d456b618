#pragma once

#include <functional>
#include <string_view>

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked {

/// The config of ModernBERT or of its decoder but for their directions and windows: rotary positions with a
/// base for windowed layers, gated MLPs, a norm over the embedding in place of the first layer's, and a head.
/// `local_attention` counts the keys of both directions, and is twice the reach of which `window_of` makes
/// the size of a window.
ModelConfig read_modernbert_config(HfConfig& hf,
                                   const std::function<std::int64_t(std::int64_t reach)>& window_of);

/// What both have under the same names, around queries, keys and values, which `add_heads` reads. The head is
/// a layer and a norm in `head`, before the unembedding `decoder`.
std::vector<TensorRecipe> modernbert_recipes(const ModelConfig& config, const HfConfig& hf,
                                             std::string_view head,
                                             const std::function<void(Recipes&)>& add_heads);

}  // namespace hooked
