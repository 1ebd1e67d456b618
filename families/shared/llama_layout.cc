#include "families/shared/llama_layout.h"

#include <utility>

namespace hooked {

ModelConfig read_llama_config(HfConfig& hf, const LlamaDefaults& defaults) {
  ModelConfig c = hf.sizes({.n_kv_heads_fallback = defaults.n_kv_heads,
                            .d_head_fallback = defaults.d_head,
                            .d_mlp = defaults.d_mlp_key,
                            .n_ctx_fallback = defaults.n_ctx},
                           defaults.tied);
  c.norm = c.final_norm = defaults.norm;
  c.eps = hf.positive_or(defaults.eps_key, defaults.eps);
  c.mlp = defaults.mlp;
  c.activation = hf.activation(defaults.activation_key, defaults.activation);
  return c;
}

void read_llama_biases(HfConfig& hf, ModelConfig& config) {
  config.qkv_bias = config.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  config.mlp_bias = hf.json().boolean_or("mlp_bias", false);
}

LayerFlags rotated_layers(const HfConfig& hf, const ModelConfig& c) {
  const ConfigReader& json = hf.json();
  const std::int64_t interval = hf.count_or("no_rope_layer_interval", 4);
  std::vector<std::int64_t> rotates;
  if (json.has("no_rope_layers")) rotates = json.integers("no_rope_layers");
  if (!rotates.empty() && static_cast<std::int64_t>(rotates.size()) != c.n_layers) {
    json.refuse("no_rope_layers",
                "does not say for every layer whether it is rotary; expected an entry for each");
  }
  return flag_layers(c, [&](std::int64_t l) {
    return rotates.empty() ? (l + 1) % interval != 0 : rotates[static_cast<std::size_t>(l)] != 0;
  });
}

void add_llama_attention(Recipes& r, const ModelConfig& config, double scale) {
  r.queries("self_attn.q_proj");
  r.keys("self_attn.k_proj");
  r.values("self_attn.v_proj");
  if (config.qk_norm) r.qk_norm("self_attn.q_norm", "self_attn.k_norm");
  r.attention_out("self_attn.o_proj", scale);
}

void add_llama_mlp(Recipes& r, const ModelConfig& config, double scale) {
  if (config.mlp == MlpKind::gated) r.mlp_gate("mlp.gate_proj");
  r.mlp_in("mlp.up_proj");
  r.mlp_out("mlp.down_proj", scale);
}

std::vector<TensorRecipe> llama_stack(const ModelConfig& config,
                                      const std::function<void(Recipes&)>& add_block) {
  Recipes r(config);
  r.embedding("embed_tokens.weight");
  r.each_block("layers.{}.", [&](std::int64_t) { add_block(r); });
  r.norm("ln_final", "norm");
  r.unembedding("lm_head");
  return std::move(r).take();
}

std::vector<TensorRecipe> scaled_llama_recipes(const ModelConfig& config, double scale) {
  return llama_stack(config, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_llama_attention(r, config, scale);
    if (config.layout != BlockLayout::parallel_one_norm) r.norm("ln2", "post_attention_layernorm");
    add_llama_mlp(r, config, scale);
  });
}

std::vector<TensorRecipe> llama_recipes(const ModelConfig& config) {
  return scaled_llama_recipes(config, 1.0);
}

}  // namespace hooked
