// Families with DeepSeek-V3's mixtures and ordinary attention.
#include <ATen/core/Tensor.h>

#include "families/shared/deepseek_mixture.h"
#include "families/shared/rope_config.h"

namespace hooked::families::deepseek_mixtures {
namespace {

// dots.llm1 (rednote 2025): Qwen 3's attention and DeepSeek-V3's mixtures.
ModelConfig read_dots1(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 2048, .n_kv_heads = 32});
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  read_deepseek_experts(hf, c, {});
  read_sigmoid_router(hf, c, /*renormalised=*/false, {.n_groups = 1, .groups_per_token = 1});
  const std::int64_t first = json.integer_or("max_window_layers", 62);
  const bool named = json.has("layer_types");
  hf.set_windows(c, {"sliding_window", 4096, /*null_is_none=*/!named},
                 hf.layers_of_type(c, [&](std::int64_t l) { return l >= first; }));
  json.ignore({"sliding_window"});
  read_rope(hf, c);
  return c;
}

// GLM 4.5 to 4.7 (Z.ai 2025): Llama's attention with partial rotary, with norms of queries and keys in the
// large models, and DeepSeek-V3's mixtures.
ModelConfig read_glm4_moe(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 8, .eps = 1e-5});
  c.qkv_bias = json.boolean_or("attention_bias", false);  // the output projection has none
  if (json.boolean_or("use_qk_norm", false)) c.qk_norm = QkNorm{.span = QkNorm::per_head};
  read_deepseek_experts(hf, c, {.per_token_fallback = 8, .shared_fallback = 1, .dense_fallback = 1});
  read_sigmoid_router(hf, c, /*renormalised=*/true, {.n_groups = 1, .groups_per_token = 1});
  read_rope(hf, c, {.partial = 0.5});
  return c;
}

// Hy3 (Tencent 2026): Qwen 3's attention; experts chosen by a sigmoid and a bias, and a shared expert.

std::vector<TensorRecipe> hy_v3_recipes(const ModelConfig& c, const HfConfig& hf) {
  return mixture_recipes(c, [&](Recipes& r) {
    r.mixture({.router = "mlp.router.gate.weight", .router_alias = "mlp.gate.weight"}, hf.output_factor());
    TensorRecipe& bias = r.make("mlp.choice_bias", {"mlp.expert_bias"},
                                [](const std::vector<at::Tensor>& stored) { return stored[0]; });
    r.or_named(bias, "mlp.e_score_correction_bias");
    r.shared_expert("mlp.shared_mlp");
  });
}

ModelConfig read_hy_v3(HfConfig& hf) {
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
                         .named_layers = true,
                         .routed_scale = "router_scaling_factor",
                         .routed_scale_fallback = 2.826});
  if (c.experts) {
    if (c.experts->d_shared == 0) {
      json.refuse("num_shared_experts", "is not allowed for this family; expected at least 1");
    }
    set_sigmoid_router(c, /*renormalised=*/true);
  }
  json.ignore({"enable_moe_fp32_combine"});  // rounding of low-precision sums
  read_rope(hf, c, {.theta = 11158840.0});
  return c;
}

// Solar Open (Upstage 2025): Llama's attention and DeepSeek-V3's mixtures in every layer.
ModelConfig read_solar_open(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(
      hf,
      {.n_ctx = 131072, .n_kv_heads = 8, .d_head = 128, .eps = 1e-5, .d_mlp_key = "moe_intermediate_size"});
  c.qkv_bias = json.boolean_or("attention_bias", false);       // the output projection has none
  hf.require_unset({"first_k_dense_replace", "use_qk_norm"});  // which other families of these mixtures have
  read_deepseek_experts(hf, c, {.per_token_fallback = 8, .shared_fallback = 1});
  read_sigmoid_router(hf, c, /*renormalised=*/true, {.n_groups = 1, .groups_per_token = 1});
  read_rope(hf, c, {.theta = 1e6, .partial = 1.0});
  return c;
}

}  // namespace

extern const Family kDots1 = llama_family("dots1", read_dots1, deepseek_mixture_recipes);
extern const Family kGlm4Moe = llama_family("glm4_moe", read_glm4_moe, deepseek_mixture_recipes);
extern const Family kHyV3 = llama_family("hy_v3", read_hy_v3, hy_v3_recipes);
extern const Family kSolarOpen = llama_family("solar_open", read_solar_open, deepseek_mixture_recipes);

}  // namespace hooked::families::deepseek_mixtures
