// K-EXAONE (LG AI Research 2026): EXAONE 4's attention in blocks with norms before the sublayers, and
// DeepSeek-V3's mixtures.
#include "families/shared/deepseek_layout.h"
#include "families/shared/exaone_windows.h"

namespace hooked::families::exaone_moe {
namespace {

constexpr double kRoutedScale = 2.5;

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  return mixture_recipes(c, [&](Recipes& r) {
    add_deepseek_mixture(r, c, routed_scale(hf, kRoutedScale), "mlp.e_score_correction_bias");
  });
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 2048, .n_kv_heads = 32, .eps = 1e-5});
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  read_deepseek_experts(hf, c,
                        {.n_experts = "num_experts",
                         .n_experts_alias = "num_experts",
                         .n_experts_fallback = 64,
                         .per_token_fallback = 8,
                         .shared = "num_shared_experts",
                         .shared_fallback = 1,
                         .dense_fallback = 1,
                         .named_layers = true});
  read_sigmoid_router(hf, c, /*renormalised=*/true, {.n_groups = 1, .groups_per_token = 1});
  routed_scale(hf, kRoutedScale);  // refused here if it is not allowed
  read_exaone_windows(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("exaone_moe", read, recipes);

}  // namespace hooked::families::exaone_moe
