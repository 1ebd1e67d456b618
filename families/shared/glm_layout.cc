#include "families/shared/glm_layout.h"

#include "families/shared/rope_config.h"

namespace hooked {

ModelConfig read_glm_config(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 2, .d_head = 128, .eps = 1.5625e-7});
  c.qkv_bias = hf.json().boolean_or("attention_bias", true);
  read_rope(hf, c, {.partial = 0.5, .adjacent_pairs = true});
  return c;
}

void add_glm_mlp(Recipes& r) {
  r.fused_gate_up("mlp.gate_up_proj");
  r.mlp_out("mlp.down_proj");
}

}  // namespace hooked
