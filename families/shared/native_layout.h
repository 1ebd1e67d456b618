#pragma once

#include <string_view>
#include <vector>

#include "families/shared/recipes.h"

namespace hooked {

/// Buffers that TransformerLens registers in addition to its parameters; the position table of its ALiBi
/// models is never read.
inline constexpr std::string_view kNativeBuffers[] = {
    "*.attn.mask", "*.attn.IGNORE", "*.attn.rotary_sin", "*.attn.rotary_cos", "*.attn.alibi", "*.hook_*"};

/// Our own tensors by their own names: one for each row of the table of weights.
std::vector<TensorRecipe> native_recipes(const ModelConfig& config);

}  // namespace hooked
