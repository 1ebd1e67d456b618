// GLM 4.5 to 4.7 (Z.ai 2025): Llama's attention with partial rotary, with norms of queries and keys in the
// large models, and DeepSeek-V3's mixtures.
#include "families/shared/deepseek_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::glm4_moe {
namespace {

constexpr double kRoutedScale = 1.0;

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  return mixture_recipes(c, [&](Recipes& r) { add_deepseek_mixture(r, c, routed_scale(hf, kRoutedScale)); });
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 8, .eps = 1e-5});
  c.qkv_bias = json.boolean_or("attention_bias", false);  // the output projection has none
  if (json.boolean_or("use_qk_norm", false)) c.qk_norm = QkNorm{.span = QkNorm::per_head};
  read_deepseek_experts(hf, c, {.per_token_fallback = 8, .shared_fallback = 1, .dense_fallback = 1});
  read_sigmoid_router(hf, c, /*renormalised=*/true, {.n_groups = 1, .groups_per_token = 1});
  routed_scale(hf, kRoutedScale);  // refused here if it is not allowed
  read_rope(hf, c, {.partial = 0.5});
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("glm4_moe", read, recipes);

}  // namespace hooked::families::glm4_moe
