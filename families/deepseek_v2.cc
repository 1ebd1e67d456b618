// DeepSeek-V2 (DeepSeek-AI 2024): latent attention, and experts chosen by their softmax, optionally from a
// few groups.
#include "families/shared/deepseek_layout.h"

namespace hooked::families::deepseek_v2 {
namespace {

constexpr double kRoutedScale = 1.0;

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  return deepseek_recipes(c, routed_scale(hf, kRoutedScale));
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c =
      read_deepseek_config(hf, {.experts = {.n_experts_alias = "num_experts", .shared_fallback = 2},
                                .n_ctx_fallback = 2048,
                                .n_kv_heads_fallback = 0});
  read_llama_biases(hf, c);
  one_of(hf, "scoring_func", {"softmax"});
  if (one_of(hf, "topk_method", {"greedy", "group_limited_greedy"}) == "group_limited_greedy") {
    read_expert_groups(hf, c, GroupScore::best);
  } else {
    json.ignore({"n_group", "topk_group"});
  }
  if (json.boolean_or("norm_topk_prob", false)) {
    hf.note("norm_topk_prob has no effect: transformers does not read it for this family");
  }
  if (c.experts) {
    c.experts->router_in_float32 = true;
    c.least_dtypes.router = KeptInFloat32::in_half;
  }
  routed_scale(hf, kRoutedScale);  // refused here if it is not allowed
  read_deepseek_rope(hf, c, /*adjacent_pairs=*/true);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("deepseek_v2", read, recipes);

}  // namespace hooked::families::deepseek_v2
