// The text model of Qwen 3-VL with mixtures of experts (Qwen Team 2025): that of Qwen 3 with rotary positions
// in sections, which make no difference for text. One tensor has the matrices of all experts, transposed in
// files that transformers has not written.
#include "families/shared/expert_config.h"
#include "families/shared/rope_config.h"

namespace hooked::families::qwen3_vl_moe_text {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& config) {
  return mixture_recipes(config,
                         [](Recipes& r) { r.mixture({.expert = "", .turned = MixtureNames::where_needed}); });
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 128000, .n_kv_heads = 16});
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  c.default_prepend_bos = false;
  read_experts(hf, c, {.n_experts_fallback = 60, .per_token_fallback = 4});
  const bool said_not = json.has("norm_topk_prob") && !json.boolean("norm_topk_prob");
  read_qwen_experts(hf, c);
  if (c.experts) c.experts->renormalised = true;
  if (said_not) hf.note("norm_topk_prob has no effect: transformers does not read it for this family");
  read_rope(hf, c, {.theta = 5e5, .sections = true});
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("qwen3_vl_moe_text", read, recipes);

}  // namespace hooked::families::qwen3_vl_moe_text
