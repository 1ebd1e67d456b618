#pragma once

#include <cstdint>
#include <string_view>

#include "families/shared/expert_config.h"

namespace hooked {

/// The config of a decoder with latent attention and mixtures under the keys that DeepSeek's families share,
/// without biases, positions and the router's way of choosing. Layers before `first_k_dense_replace` (or
/// `dense_fallback`) have ordinary MLPs.
struct DeepseekKeys {
  std::string_view n_experts_alias;
  std::int64_t dense_fallback;
  std::int64_t shared_fallback;      ///< of `n_shared_experts`
  std::int64_t n_ctx_fallback;       ///< of `max_position_embeddings`
  std::int64_t n_kv_heads_fallback;  ///< of `num_key_value_heads`; 0: as many as there are heads
};
ModelConfig read_deepseek_config(HfConfig& hf, const DeepseekKeys& keys);

/// Rotary at the end of each head, with the magnitude that YaRN gives to scores (`mscale_all_dim`).
void read_deepseek_rope(HfConfig& hf, ModelConfig& config, bool adjacent_pairs);

/// `n_group` and `topk_group`, where a router limits a token to some groups; the fallbacks are for absent
/// keys, 0: they must be there.
struct GroupFallbacks {
  std::int64_t n_groups = 0, groups_per_token = 0;
};
void read_expert_groups(HfConfig& hf, ModelConfig& config, GroupScore score,
                        const GroupFallbacks& fallbacks = {});

/// A text key of which the family knows these values only. Throws ConfigError at the key, listing them.
std::string one_of(HfConfig& hf, std::string_view key, std::initializer_list<std::string_view> known);

/// `self_attn` with its latents.
void add_latent_attention(Recipes& recipes, const ModelConfig& config);

/// The whole layout. What the routed experts write is multiplied by `routed_scale`.
std::vector<TensorRecipe> deepseek_recipes(const ModelConfig& config, double routed_scale);

}  // namespace hooked
