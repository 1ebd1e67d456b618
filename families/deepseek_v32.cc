// DeepSeek-V3.2 (DeepSeek-AI 2025): V3 with an indexer, read if that leaves out no keys.
#include "families/shared/deepseek_layout.h"

namespace hooked::families::deepseek_v32 {
namespace {

constexpr double kRoutedScale = 2.5;

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  return deepseek_recipes(c, routed_scale(hf, kRoutedScale));
}

ModelConfig read(HfConfig& hf) {
  const DeepseekExperts experts{
      .per_token_fallback = 8, .shared_fallback = 1, .dense_fallback = 3, .named_layers = true};
  routed_scale(hf, kRoutedScale);  // refused here if it is not allowed
  return read_indexed_config(hf, {.experts = experts, .n_ctx_fallback = 163840, .n_kv_heads_fallback = 128},
                             {.n_groups = 8, .groups_per_token = 4});
}

}  // namespace

extern const Family kFamily = llama_family("deepseek_v32", read, recipes);

}  // namespace hooked::families::deepseek_v32
