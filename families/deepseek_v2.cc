// DeepSeek-V2 (DeepSeek-AI 2024): latent attention, and experts chosen by their softmax, perhaps from a few
// groups.
#include "families/shared/deepseek_layout.h"

namespace hooked {
namespace {

FamilyConfig read(std::string_view text, std::string_view where) {
  HfConfig hf(text, where);
  const ConfigReader& json = hf.json();
  ModelConfig c = read_deepseek_config(hf, {.n_experts_alias = "num_experts",
                                            .dense_fallback = 0,
                                            .shared_fallback = 2,
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
  const double scale = hf.positive_or("routed_scaling_factor", 1.0);
  read_deepseek_rope(hf, c, /*adjacent_pairs=*/true);
  return hf.finish(std::move(c), [scale](const ModelConfig& made) { return deepseek_recipes(made, scale); });
}

}  // namespace

extern const Family kDeepseekV2Family = llama_family("deepseek_v2", read);

}  // namespace hooked
