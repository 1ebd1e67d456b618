// GLM 4 as of 2024 (GLM Team 2024).
#include "families/shared/glm_layout.h"

namespace hooked::families::glm {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_llama_attention(r, c);
    r.norm("ln2", "post_attention_layernorm");
    add_glm_mlp(r);
  });
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_glm_config(hf);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("glm", read, recipes);

}  // namespace hooked::families::glm
