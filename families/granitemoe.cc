// Granite with mixtures of experts (Granite Team 2024): its multipliers, and a softmax over the chosen
// logits.
#include "families/shared/expert_config.h"
#include "families/shared/granite_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::granitemoe {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  const double residual = granite_residual_scale(hf);
  return mixture_recipes(
      c,
      [residual](Recipes& r) {
        r.mixture({.router = "block_sparse_moe.router.layer.weight",
                   .router_alias = "block_sparse_moe.router.weight",
                   .expert = "",
                   .gate_up = "block_sparse_moe.input_linear.weight",
                   .down = "block_sparse_moe.output_linear.weight",
                   .gate_up_alias = "block_sparse_moe.experts.gate_up_proj",
                   .down_alias = "block_sparse_moe.experts.down_proj"},
                  residual);
      },
      residual);
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf);
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  read_experts(hf, c, {.n_experts_fallback = 8, .per_token_fallback = 2});
  c.experts->router = RouterKind::choose_then_softmax;
  read_granite_multipliers(hf, c);
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("granitemoe", read, recipes);

}  // namespace hooked::families::granitemoe
