// Mixtral (Jiang et al. 2024): Mistral with mixtures of experts whose chosen weights are renormalised.
#include "families/shared/expert_config.h"
#include "families/shared/rope_config.h"

namespace hooked::families::mixtral {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  return mixture_recipes(c, [](Recipes& r) { r.mixture(mixtral_names()); });
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 8, .eps = 1e-5});
  read_experts(hf, c, {.n_experts_fallback = 8, .per_token_fallback = 2});
  c.experts->renormalised = true;
  hf.set_windows(c, {.name = "sliding_window", .null_is_none = true},
                 flag_layers(c, [](std::int64_t) { return true; }));
  read_rope(hf, c, {.theta = 1e6});
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("mixtral", read, recipes);

}  // namespace hooked::families::mixtral
