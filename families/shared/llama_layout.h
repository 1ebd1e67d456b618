#pragma once

#include <vector>

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked {

/// Defaults of a family's config, among the keys that Llama made common.
struct LlamaDefaults {
  std::int64_t n_ctx = 2048;
  std::int64_t n_kv_heads = 0;  ///< 0: n_heads
  bool tied = false;
  std::int64_t d_head = 0;  ///< 0: d_model / n_heads
  NormKind norm = NormKind::rms_norm;
  std::string_view eps_key = "rms_norm_eps";
  double eps = 1e-6;
  MlpKind mlp = MlpKind::gated;
  std::string_view activation_key = "hidden_act";
  std::string_view activation = "silu";
  std::string_view d_mlp_key = "intermediate_size";
};

/// The config of a decoder under the keys that Llama made common, without positions and biases.
ModelConfig read_llama_config(HfConfig& hf, const LlamaDefaults& defaults = {});

/// `attention_bias` on queries, keys, values and output, `mlp_bias` on the MLP.
void read_llama_biases(HfConfig& hf, ModelConfig& config);

/// Which layers are rotary by `no_rope_layers`, whose entries are 1 there in spite of its name, or else all
/// but every `no_rope_layer_interval`-th.
LayerFlags rotated_layers(const HfConfig& hf, const ModelConfig& config);

/// `self_attn.{q,k,v,o}_proj`, with `q_norm` and `k_norm` if the config has them.
void add_llama_attention(Recipes& recipes, const ModelConfig& config, double scale = 1.0);
/// `mlp.{gate,up,down}_proj`; without a gate, up and down.
void add_llama_mlp(Recipes& recipes, const ModelConfig& config, double scale = 1.0);
/// Embedding, blocks, final norm and unembedding; `add_block` adds the content of each block.
std::vector<TensorRecipe> llama_stack(const ModelConfig& config,
                                      const std::function<void(Recipes&)>& add_block);

/// The whole layout of Llama. The outputs of attention and MLP are multiplied by `scale`.
std::vector<TensorRecipe> scaled_llama_recipes(const ModelConfig& config, double scale);
std::vector<TensorRecipe> llama_recipes(const ModelConfig& config);

inline constexpr std::string_view kLlamaBuffers[] = {"*rotary_emb.inv_freq", "*.self_attn.bias",
                                                     "*.self_attn.masked_bias"};

/// The row of a family whose files use Llama's names.
constexpr Family llama_family(std::string_view model_type, ModelConfig (*read)(HfConfig& config),
                              FamilyRecipes recipes) {
  return {.model_type = model_type,
          .read = read,
          .recipes = recipes,
          .prefix = "model.",
          .unembedding = "lm_head.weight",
          .buffers = kLlamaBuffers};
}

}  // namespace hooked
