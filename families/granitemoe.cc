// Granite with mixtures of experts (Granite Team 2024): its multipliers, and a softmax over the chosen
// logits.
#include "families/shared/expert_config.h"
#include "families/shared/granite_layout.h"
#include "families/shared/rope_config.h"

namespace hooked {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c, double residual) {
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

FamilyConfig read(std::string_view text, std::string_view where) {
  const HfConfig hf(text, where);
  ModelConfig c = read_llama_config(hf);
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  read_experts(hf, c, {.n_experts_fallback = 8, .per_token_fallback = 2});
  c.experts.router = RouterKind::choose_then_softmax;
  const double residual = read_granite_multipliers(hf, c);
  read_rope(hf, c);
  return hf.finish(std::move(c), [residual](const ModelConfig& config) { return recipes(config, residual); });
}

}  // namespace

extern const Family kGranitemoeFamily = llama_family("granitemoe", read);

}  // namespace hooked
