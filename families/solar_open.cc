// Solar Open (Upstage 2025): Llama's attention and DeepSeek-V3's mixtures in every layer.
#include "families/shared/deepseek_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::solar_open {
namespace {

constexpr double kRoutedScale = 1.0;

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  return mixture_recipes(c, [&](Recipes& r) { add_deepseek_mixture(r, c, routed_scale(hf, kRoutedScale)); });
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(
      hf,
      {.n_ctx = 131072, .n_kv_heads = 8, .d_head = 128, .eps = 1e-5, .d_mlp_key = "moe_intermediate_size"});
  c.qkv_bias = json.boolean_or("attention_bias", false);       // the output projection has none
  hf.require_unset({"first_k_dense_replace", "use_qk_norm"});  // which other families of these mixtures have
  read_deepseek_experts(hf, c, {.per_token_fallback = 8, .shared_fallback = 1});
  read_sigmoid_router(hf, c, /*renormalised=*/true, {.n_groups = 1, .groups_per_token = 1});
  routed_scale(hf, kRoutedScale);  // refused here if it is not allowed
  read_rope(hf, c, {.theta = 1e6, .partial = 1.0});
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("solar_open", read, recipes);

}  // namespace hooked::families::solar_open
