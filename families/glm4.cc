// GLM 4 as of 2025 (0414): the sublayers' outputs are normed as well.
#include "families/shared/glm_layout.h"

namespace hooked::families::glm4 {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_llama_attention(r, c);
    r.norm("ln1_post", "post_self_attn_layernorm");
    r.norm("ln2", "post_attention_layernorm");
    add_glm_mlp(r);
    r.norm("ln2_post", "post_mlp_layernorm");
  });
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_glm_config(hf);
  c.norm_place = NormPlace::both;
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("glm4", read, recipes);

}  // namespace hooked::families::glm4
