#include "families/shared/granite_layout.h"

#include "families/shared/expert_config.h"
#include "families/shared/rope_config.h"

namespace hooked {

void read_granite_multipliers(HfConfig& hf, ModelConfig& config) {
  config.embedding_scale = hf.positive_or("embedding_multiplier", 1.0);
  config.attn_scale = 1.0 / hf.positive_or("attention_multiplier", 1.0);
  config.unembedding->scale = 1.0 / hf.positive_or("logits_scaling", 1.0);
  hf.comes_from("attn_scale", hf.json().where("attention_multiplier"));
  hf.comes_from("unembedding.scale", hf.json().where("logits_scaling"));
  granite_residual_scale(hf);  // refused here if it is not allowed
}

ModelConfig read_granite_mixture(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf);
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  read_experts(hf, c, {.n_experts_fallback = 8, .per_token_fallback = 2});
  c.experts->router = RouterKind::choose_then_softmax;
  read_granite_multipliers(hf, c);
  read_rope(hf, c);
  return c;
}

double granite_residual_scale(const HfConfig& hf) { return hf.positive_or("residual_multiplier", 1.0); }

void add_granite_mixture(Recipes& r, double residual_scale) {
  r.mixture({.router = "block_sparse_moe.router.layer.weight",
             .router_alias = "block_sparse_moe.router.weight",
             .expert = "",
             .gate_up = "block_sparse_moe.input_linear.weight",
             .down = "block_sparse_moe.output_linear.weight",
             .gate_up_alias = "block_sparse_moe.experts.gate_up_proj",
             .down_alias = "block_sparse_moe.experts.down_proj"},
            residual_scale);
}

}  // namespace hooked
