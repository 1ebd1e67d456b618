// GLM 4.7 Flash (Z.ai 2026): DeepSeek-V3 under other defaults.
#include "families/shared/deepseek_layout.h"

namespace hooked::families::glm4_moe_lite {
namespace {

constexpr double kRoutedScale = 1.8;

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  return deepseek_recipes(c, routed_scale(hf, kRoutedScale));
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  require_one_dense_layer(hf);
  const DeepseekExperts experts{
      .per_token_fallback = 4, .shared_fallback = 1, .dense_fallback = 1, .named_layers = true};
  ModelConfig c = read_deepseek_config(
      hf, {.experts = experts, .n_ctx_fallback = 202752, .n_kv_heads_fallback = 20, .eps_fallback = 1e-5});
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  read_sigmoid_router(hf, c, /*renormalised=*/true, {.n_groups = 1, .groups_per_token = 1});
  routed_scale(hf, kRoutedScale);  // refused here if it is not allowed
  read_deepseek_rope(hf, c, json.boolean_or("rope_interleave", true));
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("glm4_moe_lite", read, recipes);

}  // namespace hooked::families::glm4_moe_lite
