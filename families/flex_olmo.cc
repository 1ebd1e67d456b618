// FlexOlmo (Shi et al. 2025): OLMo 2 with OLMoE's mixtures.
#include "families/shared/expert_config.h"
#include "families/shared/rope_config.h"

namespace hooked::families::flex_olmo {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& config) {
  return llama_stack(config, [&](Recipes& r) {
    add_llama_attention(r, config);
    r.norm("ln1_post", "post_attention_layernorm");
    r.mixture({});
    r.norm("ln2_post", "post_feedforward_layernorm");
  });
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 4096});
  c.norm_place = NormPlace::output;
  c.qk_norm = QkNorm{.span = QkNorm::whole_projection};
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  read_experts(hf, c, {.n_experts_fallback = 7, .per_token_fallback = 5});
  c.experts->renormalised = json.boolean_or("norm_topk_prob", false);
  read_rope(hf, c, {.theta = 5e5});
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("flex_olmo", read, recipes);

}  // namespace hooked::families::flex_olmo
