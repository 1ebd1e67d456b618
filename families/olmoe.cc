// OLMoE (Muennighoff et al. 2024): mixtures of experts, one norm over all heads of queries and of keys.
#include "families/shared/expert_config.h"
#include "families/shared/rope_config.h"

namespace hooked::families::olmoe {
namespace {

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 4096, .eps = 1e-5});
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  c.qk_norm = QkNorm{.span = QkNorm::whole_projection};
  hf.require_unset({"sliding_window"});  // honoured by only some of transformers' attention kernels
  if (json.has("clip_qkv")) c.qkv_clip = hf.positive_or("clip_qkv", 0.0);
  read_experts(hf, c, {.n_experts_fallback = 64, .per_token_fallback = 8});
  c.experts->renormalised = json.boolean_or("norm_topk_prob", false);
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("olmoe", read, usual_mixture_recipes);

}  // namespace hooked::families::olmoe
