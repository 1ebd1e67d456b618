// GLM 4 as of 2024 (GLM Team 2024).
#include "families/shared/glm_layout.h"

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

extern const Family kGlmFamily = llama_family("glm", read);

}  // namespace hooked
