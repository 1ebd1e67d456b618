// DeepSeek-V3 and R1 (DeepSeek-AI 2024), Moonlight: latent attention, and experts chosen by a sigmoid and a
// bias from a few groups.
#include "families/shared/deepseek_layout.h"

namespace hooked::families::deepseek_v3 {
namespace {

// Of what the experts write; no field of the config holds it.
double routed_scale(const HfConfig& hf) { return hf.positive_or("routed_scaling_factor", 2.5); }

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  return deepseek_recipes(c, routed_scale(hf));
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  // transformers takes null for false.
  const auto usually = [&](std::string_view key) { return !json.is_null(key) && json.boolean_or(key, true); };
  ModelConfig c = read_deepseek_config(hf, {.n_experts_alias = "num_local_experts",
                                            .dense_fallback = 3,
                                            .shared_fallback = 1,
                                            .n_ctx_fallback = 4096,
                                            .n_kv_heads_fallback = 128});
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  one_of(hf, "scoring_func", {"sigmoid"});
  one_of(hf, "topk_method", {"noaux_tc"});
  const bool renormalised = usually("norm_topk_prob");
  if (c.experts) {
    c.experts->router = RouterKind::sigmoid_then_choose;
    c.experts->choice_bias = true;
    c.experts->renormalised = renormalised;
  }
  read_expert_groups(hf, c, GroupScore::best_two, {.n_groups = 8, .groups_per_token = 4});
  routed_scale(hf);  // refused here if it is not allowed
  read_deepseek_rope(hf, c, usually("rope_interleave"));
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("deepseek_v3", read, recipes);

}  // namespace hooked::families::deepseek_v3
