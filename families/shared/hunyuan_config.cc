#include "families/shared/hunyuan_config.h"

#include "families/shared/rope_config.h"

namespace hooked {

ModelConfig read_hunyuan_config(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.eps = 1e-5});
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  c.qk_norm = QkNorm{.span = QkNorm::per_head, .after_rotary = true};
  read_rope(hf, c, {.fixed_alpha = true});
  return c;
}

void add_hunyuan_attention(Recipes& r) {
  r.queries("self_attn.q_proj");
  r.keys("self_attn.k_proj");
  r.values("self_attn.v_proj");
  r.qk_norm("self_attn.query_layernorm", "self_attn.key_layernorm");
  r.attention_out("self_attn.o_proj");
}

std::vector<TensorRecipe> hunyuan_recipes(const ModelConfig& config) {
  return llama_stack(config, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_hunyuan_attention(r);
    r.norm("ln2", "post_attention_layernorm");
    add_llama_mlp(r, config);
  });
}

}  // namespace hooked
