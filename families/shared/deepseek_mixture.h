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
  std::string_view routed_scale = "routed_scaling_factor";  ///< multiplies the routed experts' output
  double routed_scale_fallback = 1.0;
};
/// Also records the factor of the routed experts' output for the recipes (HfConfig::output_factor).
void read_deepseek_experts(HfConfig& hf, ModelConfig& config, const DeepseekExperts& keys);

/// For families whose `first_k_dense_replace` is not read by transformers: one layer has an ordinary MLP
/// unless `mlp_layer_types` says otherwise. Throws ConfigError if the key says something else.
void require_one_dense_layer(const HfConfig& hf);

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
/// A text key with these values only. Throws ConfigError at the key, listing them.
std::string one_of(HfConfig& hf, std::string_view key, std::initializer_list<std::string_view> known);

/// `mlp`, a mixture with its choice bias (which files may also call `bias_alias`) and its shared expert.
void add_deepseek_mixture(Recipes& recipes, const ModelConfig& config, const HfConfig& hf,
                          std::string_view bias_alias = {});

/// Llama's layout with such mixtures.
std::vector<TensorRecipe> deepseek_mixture_recipes(const ModelConfig& config, const HfConfig& hf);

}  // namespace hooked
