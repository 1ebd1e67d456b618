#pragma once

#include <cstdint>
#include <string_view>

#include "families/shared/expert_config.h"

namespace hooked {

/// The keys of sizes in DeepSeek's style of mixtures, and a family's defaults.
struct DeepseekExperts {
  std::string_view n_experts = "n_routed_experts";
  std::string_view n_experts_alias = "num_local_experts";
  std::int64_t n_experts_fallback = 0;  ///< 0: the key is required
  std::int64_t per_token_fallback = 0;  ///< 0: `num_experts_per_tok` is required
  std::string_view shared = "n_shared_experts";
  std::int64_t shared_fallback = 0;
  std::int64_t dense_fallback = 0;  ///< of `first_k_dense_replace`, before which layers have ordinary MLPs
  bool named_layers = false;        ///< whether `mlp_layer_types`, if present, says which layers are `sparse`
};
void read_deepseek_experts(HfConfig& hf, ModelConfig& config, const DeepseekExperts& keys);

/// For families whose `first_k_dense_replace` is not read by transformers: one layer has an ordinary MLP
/// unless `mlp_layer_types` says otherwise. Throws ConfigError if the key says something else.
void require_one_dense_layer(const HfConfig& hf);

/// The config of a decoder with latent attention and mixtures under the keys that DeepSeek's families share,
/// without biases, positions and the router's rule.
struct DeepseekKeys {
  DeepseekExperts experts;
  std::int64_t n_ctx_fallback;       ///< of `max_position_embeddings`
  std::int64_t n_kv_heads_fallback;  ///< of `num_key_value_heads`; 0: the number of heads
  double eps_fallback = 1e-6;        ///< of `rms_norm_eps`
};
ModelConfig read_deepseek_config(HfConfig& hf, const DeepseekKeys& keys);

/// Rotary at the end of each head, with YaRN's magnitude of scores (`mscale_all_dim`).
void read_deepseek_rope(HfConfig& hf, ModelConfig& config, bool adjacent_pairs);

/// `n_group` and `topk_group`, if a router limits a token to some groups; the fallbacks are for absent keys,
/// 0: the key is required.
struct GroupFallbacks {
  std::int64_t n_groups = 0, groups_per_token = 0;
};
void read_expert_groups(HfConfig& hf, ModelConfig& config, GroupScore score,
                        const GroupFallbacks& fallbacks = {});

/// transformers adds this to the sum of the chosen weights before it divides by it.
inline constexpr double kAddedToSum = 1e-20;

/// The router of DeepSeek-V3: its logits are computed in float32, and its choice bias stays in float32.
void set_sigmoid_router(ModelConfig& config, bool renormalised);
/// The same by the config: a sigmoid of each logit, a bias for choosing, groups, `norm_topk_prob` (or
/// `renormalised`).
void read_sigmoid_router(HfConfig& hf, ModelConfig& config, bool renormalised,
                         const GroupFallbacks& fallbacks);
/// `routed_scaling_factor`, the factor of the routed experts' output; no field of the config has
/// it.
double routed_scale(const HfConfig& hf, double fallback);

/// DeepSeek-V3.2 and its successors: V3 with an indexer that lets a query attend to the `index_topk` keys
/// that it scores highest. Longer sequences than that are refused: in shorter ones every key is chosen, so
/// that attention is V3's and the indexer has no effect.
ModelConfig read_indexed_config(HfConfig& hf, const DeepseekKeys& keys, const GroupFallbacks& groups);

/// A text key with these values only. Throws ConfigError at the key, listing them.
std::string one_of(HfConfig& hf, std::string_view key, std::initializer_list<std::string_view> known);

/// `self_attn` with its latents.
void add_latent_attention(Recipes& recipes, const ModelConfig& config);

/// `mlp`, a mixture with its choice bias (which files may also call `bias_alias`) and its shared expert.
void add_deepseek_mixture(Recipes& recipes, const ModelConfig& config, double routed_scale,
                          std::string_view bias_alias = {});

/// The whole layout. The routed experts' output is multiplied by `routed_scale`.
std::vector<TensorRecipe> deepseek_recipes(const ModelConfig& config, double routed_scale);

}  // namespace hooked
