// dots.llm1 (rednote 2025): Qwen 3's attention and DeepSeek-V3's mixtures.
#include "families/shared/deepseek_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::dots1 {
namespace {

constexpr double kRoutedScale = 1.0;

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  return mixture_recipes(c, [&](Recipes& r) { add_deepseek_mixture(r, c, routed_scale(hf, kRoutedScale)); });
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 2048, .n_kv_heads = 32});
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  read_deepseek_experts(hf, c, {});
  read_sigmoid_router(hf, c, /*renormalised=*/false, {.n_groups = 1, .groups_per_token = 1});
  routed_scale(hf, kRoutedScale);  // refused here if it is not allowed
  const std::int64_t first = json.integer_or("max_window_layers", 62);
  const bool named = json.has("layer_types");
  hf.set_windows(c, {"sliding_window", 4096, /*null_is_none=*/!named},
                 hf.windowed_layers(c, [&](std::int64_t l) { return l >= first; }));
  json.ignore({"sliding_window"});
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("dots1", read, recipes);

}  // namespace hooked::families::dots1
