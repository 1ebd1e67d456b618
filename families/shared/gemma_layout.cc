#include "families/shared/gemma_layout.h"

#include <cmath>

namespace hooked {

ModelConfig read_gemma_config(HfConfig& hf, LlamaDefaults defaults) {
  defaults.tied = true;
  defaults.d_head = 256;
  defaults.activation = "gelu_pytorch_tanh";
  ModelConfig c = read_llama_config(hf, defaults);
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  c.norm_offset = true;
  c.embedding_scale = std::sqrt(static_cast<double>(c.d_model));
  hf.json().ignore({"hidden_act", "hidden_activation"});
  return c;
}

void read_gemma_caps(HfConfig& hf, ModelConfig& config, const GemmaCaps& fallback) {
  config.norm_place = NormPlace::both;
  config.attn_scale = std::sqrt(hf.positive_or("query_pre_attn_scalar", 256.0));
  const auto cap = [&](std::string_view key, double absent) {
    if (hf.json().is_null(key)) return 0.0;
    return hf.json().has(key) ? hf.positive_or(key, absent) : absent;
  };
  config.score_soft_cap = cap("attn_logit_softcapping", fallback.scores);
  config.unembedding->soft_cap = cap("final_logit_softcapping", fallback.logits);
}

std::vector<TensorRecipe> gemma_two_norm_recipes(const ModelConfig& config) {
  return llama_stack(config, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_llama_attention(r, config);
    r.norm("ln1_post", "post_attention_layernorm");
    r.norm("ln2", "pre_feedforward_layernorm");
    add_llama_mlp(r, config);
    r.norm("ln2_post", "post_feedforward_layernorm");
  });
}

}  // namespace hooked
