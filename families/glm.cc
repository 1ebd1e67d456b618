// GLM 4.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::glm {
namespace {

// GLM 4 as of 2024 (GLM Team 2024): biases on queries, keys and values, partial rotary in adjacent pairs.
ModelConfig read_glm(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 2, .d_head = 128, .eps = 1.5625e-7});
  c.qkv_bias = hf.json().boolean_or("attention_bias", true);
  read_rope(hf, c, {.partial = 0.5, .adjacent_pairs = true});
  return c;
}

// The outputs of sublayers are normed as well where the config says so.
std::vector<TensorRecipe> glm_recipes(const ModelConfig& c) {
  const bool both = c.norm_place == NormPlace::both;
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_llama_attention(r, c);
    if (both) r.norm("ln1_post", "post_self_attn_layernorm");
    r.norm("ln2", "post_attention_layernorm");
    r.fused_gate_up("mlp.gate_up_proj");
    r.mlp_out("mlp.down_proj");
    if (both) r.norm("ln2_post", "post_mlp_layernorm");
  });
}

// GLM 4 as of 2025 (0414): the sublayers' outputs are normed as well.
ModelConfig read_glm4(HfConfig& hf) {
  ModelConfig c = read_glm(hf);
  c.norm_place = NormPlace::both;
  return c;
}

}  // namespace

extern const Family kGlm = llama_family("glm", read_glm, glm_recipes);
extern const Family kGlm4 = llama_family("glm4", read_glm4, glm_recipes);

}  // namespace hooked::families::glm
