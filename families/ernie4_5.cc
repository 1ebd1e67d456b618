// ERNIE 4.5 (Baidu 2025).
#include <ATen/core/Tensor.h>

#include "families/shared/expert_config.h"
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::ernie4_5 {
namespace {

// ERNIE 4.5, the dense models (Baidu 2025): Llama with adjacent rotary pairs.
ModelConfig read_ernie4_5(HfConfig& hf) {
  ModelConfig c =
      read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 2, .tied = true, .d_head = 128, .eps = 1e-5});
  c.qkv_bias = c.attn_out_bias = c.mlp_bias = hf.json().boolean_or("use_bias", false);
  read_rope(hf, c, {.theta = 5e5, .adjacent_pairs = true});
  return c;
}

// ERNIE 4.5 with mixtures of experts (Baidu 2025): a bias for choosing experts, shared experts side by side.

std::vector<TensorRecipe> ernie4_5_moe_recipes(const ModelConfig& c) {
  return mixture_recipes(c, [&](Recipes& r) {
    r.mixture({});
    TensorRecipe& bias = r.make("mlp.choice_bias", {"mlp.moe_statics.e_score_correction_bias"},
                                [](const std::vector<at::Tensor>& stored) { return stored[0].flatten(); });
    r.or_named(bias, "mlp.gate.moe_statics.e_score_correction_bias");
    bias.optional = true;
    if (c.experts->d_shared > 0) r.shared_expert("mlp.shared_experts");
  });
}

ModelConfig read_ernie4_5_moe(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 4, .tied = true, .eps = 1e-5});
  c.qkv_bias = c.attn_out_bias = c.mlp_bias = c.unembedding->bias = json.boolean_or("use_bias", false);
  read_experts(hf, c,
               {.n_experts = "moe_num_experts",
                .n_experts_alias = "num_experts",
                .n_experts_fallback = 64,
                .per_token = json.has("moe_k") ? "moe_k" : "num_experts_per_tok",
                .per_token_fallback = 6});
  c.experts->choice_bias = c.experts->renormalised = c.experts->router_in_float32 = true;
  c.experts->least_sum = hf.positive_or("moe_norm_min", 1e-12);
  const std::int64_t shared = json.integer_or("moe_num_shared_experts", 2);
  const std::int64_t first = json.integer_or("moe_layer_start_index", 1);
  const std::int64_t last = json.integer_or("moe_layer_end_index", -1);
  const std::int64_t interval = hf.count_or("moe_layer_interval", 1);
  if (shared < 0 || shared > kUnlimitedContext / hf.count("moe_intermediate_size")) {
    json.refuse("moe_num_shared_experts", "is out of range; expected 0 or a small number of experts");
  }
  c.experts->d_shared = shared * hf.count("moe_intermediate_size");
  set_expert_width(hf, c, "moe_intermediate_size", flag_layers(c, [&](std::int64_t l) {
                     return (l + 1) % interval != 0 || l < first || (last != -1 && l > last);
                   }));
  if (c.experts) c.least_dtypes.choice_bias = c.least_dtypes.router = KeptInFloat32::in_half;
  json.ignore({"moe_capacity", "moe_gate", "moe_use_aux_free"});  // of the trainer's own code
  read_rope(hf, c, {.theta = 5e5, .adjacent_pairs = true});
  return c;
}

}  // namespace

extern const Family kErnie45 = llama_family("ernie4_5", read_ernie4_5, llama_recipes);
extern const Family kErnie45Moe = llama_family("ernie4_5_moe", read_ernie4_5_moe, ernie4_5_moe_recipes);

}  // namespace hooked::families::ernie4_5
