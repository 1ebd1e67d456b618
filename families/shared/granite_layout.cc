#include "families/shared/granite_layout.h"

#include "families/shared/expert_config.h"
#include "families/shared/llama_layout.h"

namespace hooked {

void read_granite_multipliers(HfConfig& hf, ModelConfig& config) {
  config.embedding_scale = hf.positive_or("embedding_multiplier", 1.0);
  config.attn_scale = 1.0 / hf.positive_or("attention_multiplier", 1.0);
  config.unembedding->scale = 1.0 / hf.positive_or("logits_scaling", 1.0);
  hf.comes_from("attn_scale", hf.json().where("attention_multiplier"));
  hf.comes_from("unembedding.scale", hf.json().where("logits_scaling"));
  granite_residual_scale(hf);  // refused here if it is not allowed
}

double granite_residual_scale(const HfConfig& hf) { return hf.positive_or("residual_multiplier", 1.0); }

ModelConfig read_granite_mixture_config(HfConfig& hf, const GraniteMlps& mlps) {
  const ConfigReader& json = hf.json();
  constexpr std::string_view kExperts = "num_local_experts";
  ModelConfig c = read_llama_config(hf);
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  if (mlps.may_have_no_experts && json.has(kExperts) && json.integer(kExperts) == 0) {
    c.d_mlp = mlps.d_shared;
    json.ignore({"num_experts_per_tok"});
  } else {
    read_experts(hf, c, {.n_experts_fallback = 8, .per_token_fallback = 2});
    c.experts->router = RouterKind::choose_then_softmax;
    c.experts->d_shared = mlps.d_shared;
  }
  read_granite_multipliers(hf, c);
  return c;
}

std::vector<TensorRecipe> granite_mixture_recipes(const ModelConfig& config, const HfConfig& hf) {
  const double residual = granite_residual_scale(hf);
  return llama_stack(config, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_llama_attention(r, config, residual);
    r.norm("ln2", "post_attention_layernorm");
    if (!config.experts) {
      r.fused_gate_up("shared_mlp.input_linear");
      r.mlp_out("shared_mlp.output_linear", residual);
      return;
    }
    r.mixture({.router = "block_sparse_moe.router.layer.weight",
               .router_alias = "block_sparse_moe.router.weight",
               .expert = "",
               .gate_up = "block_sparse_moe.input_linear.weight",
               .down = "block_sparse_moe.output_linear.weight",
               .gate_up_alias = "block_sparse_moe.experts.gate_up_proj",
               .down_alias = "block_sparse_moe.experts.down_proj"},
              residual);
    if (config.experts->d_shared > 0) {
      r.fused_shared_expert("shared_mlp.input_linear", "shared_mlp.output_linear", residual);
    }
  });
}

}  // namespace hooked
