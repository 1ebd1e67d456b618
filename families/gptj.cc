// GPT-J (Wang and Komatsuzaki 2021): attention and MLP read one norm; rotary rotates adjacent pairs.
#include "families/shared/gptj_layout.h"
#include "families/shared/recipes.h"

namespace hooked::families::gptj {
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

ModelConfig read(HfConfig& hf) { return read_gptj_config(hf); }

}  // namespace

extern const Family kFamily{.model_type = "gptj",
                            .read = read,
                            .recipes = recipes,
                            .prefix = "transformer.",
                            .unembedding = "lm_head.weight",
                            .buffers = kGptjBuffers};

}  // namespace hooked::families::gptj
