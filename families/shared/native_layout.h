#pragma once

#include <string_view>
#include <vector>

#include "families/shared/recipes.h"

namespace hooked {

/// What TransformerLens registers beside its parameters; the position table of its ALiBi models is never
/// read.
inline constexpr std::string_view kNativeBuffers[] = {
    "*.attn.mask", "*.attn.IGNORE", "*.attn.rotary_sin", "*.attn.rotary_cos", "*.attn.alibi", "*.hook_*"};

/// Our own tensors by their own names: a row of the table of weights each.
std::vector<TensorRecipe> native_recipes(const ModelConfig& config);

}  // namespace hooked
