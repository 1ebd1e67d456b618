#pragma once

#include <functional>
#include <string_view>

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked {

/// The config keys of GPT-J, which CodeGen shares.
ModelConfig read_gptj_config(HfConfig& hf);

/// The tensors of GPT-J except queries, keys and values, which `add_qkv` adds block by block.
void add_gptj_parts(Recipes& recipes, const std::function<void()>& add_qkv);

inline constexpr std::string_view kGptjBuffers[] = {"h.*.attn.bias", "h.*.attn.masked_bias",
                                                    "h.*.attn.causal_mask", "h.*.attn.embed_positions"};

}  // namespace hooked
