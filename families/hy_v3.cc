// Hy3 (Tencent 2026): Qwen 3's attention; experts chosen by a sigmoid and a bias, and a shared expert.
#include <ATen/core/Tensor.h>

#include "families/shared/deepseek_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::hy_v3 {
namespace {

// Factor of the routed experts' output; no field of the config has it.
double routed_scale(const HfConfig& hf) { return hf.positive_or("router_scaling_factor", 2.826); }

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  return mixture_recipes(c, [&](Recipes& r) {
    r.mixture({.router = "mlp.router.gate.weight", .router_alias = "mlp.gate.weight"}, routed_scale(hf));
    TensorRecipe& bias = r.make("mlp.choice_bias", {"mlp.expert_bias"},
                                [](const std::vector<at::Tensor>& stored) { return stored[0]; });
    r.or_named(bias, "mlp.e_score_correction_bias");
    r.shared_expert("mlp.shared_mlp");
  });
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 8, .d_head = 128, .eps = 1e-5});
  read_llama_biases(hf, c);
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  require_one_dense_layer(hf);
  read_deepseek_experts(hf, c,
                        {.n_experts = "num_experts",
                         .n_experts_fallback = 192,
                         .per_token_fallback = 8,
                         .shared = "num_shared_experts",
                         .shared_fallback = 1,
                         .dense_fallback = 1,
                         .named_layers = true});
  if (c.experts) {
    if (c.experts->d_shared == 0) {
      json.refuse("num_shared_experts", "is not allowed for this family; expected at least 1");
    }
    set_sigmoid_router(c, /*renormalised=*/true);
  }
  routed_scale(hf);                          // refused here if it is not allowed
  json.ignore({"enable_moe_fp32_combine"});  // rounding of low-precision sums
  read_rope(hf, c, {.theta = 11158840.0});
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("hy_v3", read, recipes);

}  // namespace hooked::families::hy_v3
