// GLM 4 as of 2024 (GLM Team 2024).
#include "models/families/glm_layout.h"
#include "models/families/rope_config.h"

namespace hooked {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_llama_attention(r, c);
    r.norm("ln2", "post_attention_layernorm");
    add_glm_mlp(r);
  });
}

FamilyConfig read(std::string_view text, std::string_view where) {
  const HfConfig hf(text, where);
  ModelConfig c = read_glm_config(hf);
  return hf.finish(std::move(c), recipes);
}

}  // namespace

ModelConfig read_glm_config(const HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 2, .d_head = 128, .eps = 1.5625e-7});
  c.qkv_bias = hf.json().boolean_or("attention_bias", true);
  read_rope(hf, c, {.partial = 0.5, .adjacent_pairs = true});
  return c;
}

void add_glm_mlp(Recipes& r) {
  r.fused_gate_up("mlp.gate_up_proj");
  r.mlp_out("mlp.down_proj");
}

extern const Family kGlmFamily = llama_family("glm", read);

}  // namespace hooked
