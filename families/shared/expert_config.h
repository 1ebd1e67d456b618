#pragma once

#include <string_view>

#include "families/shared/llama_layout.h"

namespace hooked {

/// The number of experts, and of chosen experts; if keys have several names, these are tried in order.
struct ExpertKeys {
  std::string_view n_experts = "num_local_experts";
  std::string_view n_experts_alias = "num_experts";
  std::int64_t n_experts_fallback = 0;  ///< if neither key is present; 0: one is required
  std::string_view per_token = "num_experts_per_tok";
  std::int64_t per_token_fallback = 0;
};

/// Replaces every MLP of `config` by a mixture of experts of the MLPs' width.
void read_experts(HfConfig& hf, ModelConfig& config, const ExpertKeys& keys);

/// Experts of the width in the key, and ordinary MLPs in `dense` layers.
void set_expert_width(HfConfig& hf, ModelConfig& config, std::string_view key, LayerFlags dense);

/// Which layers have an ordinary MLP by `mlp_layer_types`, whose entries are `dense` and `sparse`.
LayerFlags dense_layers_by_name(const HfConfig& hf, const ModelConfig& config);

/// Mixtral's names for mixtures.
MixtureNames mixtral_names();

/// Llama's layout with `add_mixture` in each block that has one. The sublayers' outputs are multiplied by
/// `scale` (for the mixture, `add_mixture` does it).
std::vector<TensorRecipe> mixture_recipes(const ModelConfig& config,
                                          const std::function<void(Recipes&)>& add_mixture,
                                          double scale = 1.0);

/// The same for mixtures with the names that most families share.
std::vector<TensorRecipe> usual_mixture_recipes(const ModelConfig& config);

}  // namespace hooked
