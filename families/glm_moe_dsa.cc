// GLM-5 (Z.ai 2026): DeepSeek-V3.2 whose layers may share the index of one of them, read if the index leaves
// out no keys.
#include "families/shared/deepseek_layout.h"

namespace hooked::families::glm_moe_dsa {
namespace {

constexpr double kRoutedScale = 2.5;

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  return deepseek_recipes(c, routed_scale(hf, kRoutedScale));
}

ModelConfig read(HfConfig& hf) {
  const DeepseekExperts experts{
      .per_token_fallback = 8, .shared_fallback = 1, .dense_fallback = 3, .named_layers = true};
  routed_scale(hf, kRoutedScale);  // refused here if it is not allowed
  // They say which layers index, and how.
  hf.json().ignore({"indexer_types", "index_topk_pattern", "index_topk_freq", "index_skip_topk_offset",
                    "indexer_rope_interleave"});
  return read_indexed_config(
      hf, {.experts = experts, .n_ctx_fallback = 202752, .n_kv_heads_fallback = 64, .eps_fallback = 1e-5},
      {.n_groups = 1, .groups_per_token = 1});
}

}  // namespace

extern const Family kFamily = llama_family("glm_moe_dsa", read, recipes);

}  // namespace hooked::families::glm_moe_dsa
