// DeepSeek-V3 and R1 (DeepSeek-AI 2024), Moonlight: latent attention, and experts chosen by a sigmoid and a
// bias from a few groups.
#include "families/shared/deepseek_layout.h"

namespace hooked {
namespace {

FamilyConfig read(std::string_view text, std::string_view where) {
  HfConfig hf(text, where);
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
  if (c.experts.n_experts > 0) {
    c.experts.router = RouterKind::sigmoid_then_choose;
    c.experts.choice_bias = true;
    c.experts.renormalised = renormalised;
  }
  read_expert_groups(hf, c, GroupScore::best_two, {.n_groups = 8, .groups_per_token = 4});
  const double scale = hf.positive_or("routed_scaling_factor", 2.5);
  read_deepseek_rope(hf, c, usually("rope_interleave"));
  return hf.finish(std::move(c), [scale](const ModelConfig& made) { return deepseek_recipes(made, scale); });
}

}  // namespace

extern const Family kDeepseekV3Family = llama_family("deepseek_v3", read);

}  // namespace hooked
