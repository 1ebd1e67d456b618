// DeepSeek-V3 and R1 (DeepSeek-AI 2024), Moonlight: latent attention, and experts chosen by a sigmoid and a
// bias from a few groups.
#include "families/shared/deepseek_layout.h"

namespace hooked::families::deepseek_v3 {
namespace {

constexpr double kRoutedScale = 2.5;

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  return deepseek_recipes(c, routed_scale(hf, kRoutedScale));
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_deepseek_config(hf, {.experts = {.shared_fallback = 1, .dense_fallback = 3},
                                            .n_ctx_fallback = 4096,
                                            .n_kv_heads_fallback = 128});
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  read_sigmoid_router(hf, c, /*renormalised=*/true, {.n_groups = 8, .groups_per_token = 4});
  routed_scale(hf, kRoutedScale);  // refused here if it is not allowed
  // transformers treats null as false.
  read_deepseek_rope(hf, c, !json.is_null("rope_interleave") && json.boolean_or("rope_interleave", true));
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("deepseek_v3", read, recipes);

}  // namespace hooked::families::deepseek_v3
