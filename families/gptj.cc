// GPT-J (Wang and Komatsuzaki 2021): attention and MLP read one norm; rotary turns adjacent pairs.
#include "families/shared/gptj_layout.h"
#include "families/shared/recipes.h"

namespace hooked {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  add_gptj_parts(r, [&] {
    r.queries("attn.q_proj");
    r.keys("attn.k_proj");
    r.values("attn.v_proj");
  });
  return std::move(r).take();
}

FamilyConfig read(std::string_view text, std::string_view where) {
  const HfConfig hf(text, where);
  return hf.finish(read_gptj_config(hf), recipes);
}

}  // namespace

extern const Family kGptjFamily{.model_type = "gptj",
                                .read = read,
                                .prefix = "transformer.",
                                .unembedding = "lm_head.weight",
                                .buffers = kGptjBuffers};

}  // namespace hooked
