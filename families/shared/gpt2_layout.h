#pragma once

#include <functional>
#include <string_view>

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked {

/// The keys of sizes that GPT-2 made common; GPT-J and GPTBigCode also use them.
SizeKeys gpt2_size_keys(const ConfigReader& json, std::int64_t n_ctx_fallback);

/// Embedding, positions, blocks with an MLP, final norm and unembedding under GPT-2's names; `add_attention`
/// adds the attention of each block.
void add_gpt2_parts(Recipes& recipes, const std::function<void()>& add_attention);

/// Attention with one projection for queries, keys and values.
void add_gpt2_attention(Recipes& recipes, const FusedHeads& heads);

inline constexpr std::string_view kGpt2Buffers[] = {"h.*.attn.bias", "h.*.attn.masked_bias"};

}  // namespace hooked
