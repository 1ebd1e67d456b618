// EXAONE (LG AI Research).
#include <utility>

#include "families/shared/deepseek_mixture.h"
#include "families/shared/hf_config.h"
#include "families/shared/olmo2_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::exaone {
namespace {

// The windows of EXAONE 4 and its successors: every fourth layer has none (or those that `layer_types` or
// `sliding_window_pattern` name), and has no positions. Without windows, all layers have rotary.
void read_exaone_windows(HfConfig& hf, ModelConfig& c) {
  const ConfigReader& json = hf.json();
  const bool named = json.has("layer_types");
  std::int64_t pattern = 4;  // a word such as "LLLG" only repeats layer_types
  if (!named && json.is_null("sliding_window_pattern")) {
    pattern = 0;
  } else if (!named && json.has("sliding_window_pattern")) {
    pattern = hf.count("sliding_window_pattern");
  }
  json.ignore({"sliding_window_pattern"});
  LayerFlags windowed =
      hf.layers_of_type(c, [&](std::int64_t l) { return pattern > 0 && (l + 1) % pattern != 0; });
  hf.set_windows(c, {"sliding_window", 4096, /*null_is_none=*/!named}, windowed);
  read_rope(hf, c);
  windowed.flip();
  if (!json.is_null("sliding_window")) c.rotary()->unrotated_layers = none_if_all_false(std::move(windowed));
}

// EXAONE 4 (LG AI Research 2025): OLMo 2 with norms of each query and key; full layers have no positions.
ModelConfig read_exaone4(HfConfig& hf) {
  ModelConfig c = read_olmo2_config(hf, QkNorm::per_head, /*n_kv_heads=*/32);
  read_exaone_windows(hf, c);
  return c;
}

// K-EXAONE (LG AI Research 2026): EXAONE 4's attention in blocks with norms before the sublayers, and
// DeepSeek-V3's mixtures.

std::vector<TensorRecipe> exaone_moe_recipes(const ModelConfig& c, const HfConfig& hf) {
  return mixture_recipes(c,
                         [&](Recipes& r) { add_deepseek_mixture(r, c, hf, "mlp.e_score_correction_bias"); });
}

ModelConfig read_exaone_moe(HfConfig& hf) {
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
                         .named_layers = true,
                         .routed_scale_fallback = 2.5});
  read_sigmoid_router(hf, c, /*renormalised=*/true, {.n_groups = 1, .groups_per_token = 1});
  read_exaone_windows(hf, c);
  return c;
}

}  // namespace

extern const Family kExaone4 = llama_family("exaone4", read_exaone4, olmo2_recipes);
extern const Family kExaoneMoe = llama_family("exaone_moe", read_exaone_moe, exaone_moe_recipes);

}  // namespace hooked::families::exaone
