// AFMoE (Arcee 2025, Trinity): gated heads, norms on both sides of the sublayers, windows with rotary and
// full layers without any positions, experts chosen by a sigmoid and a bias.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "families/shared/deepseek_mixture.h"
#include "families/shared/rope_config.h"

namespace hooked::families::afmoe {
namespace {

using Tensors = std::vector<at::Tensor>;

// The gates' projection has no bias, whatever the others have.
void add_gates(Recipes& r, const ModelConfig& c) {
  const std::int64_t heads = c.n_heads, d = c.d_head;
  r.make("attn.W_G", {"self_attn.gate_proj.weight"}, [heads, d](const Tensors& weight) {
    return weight[0].unflatten(0, {heads, d}).transpose(1, 2);
  });
  if (!c.qkv_bias) return;
  r.make("attn.b_G", {}, [heads, d, dtype = c.dtype](const Tensors&) {
    return at::zeros({heads, d}, dtype);
  });
}

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_llama_attention(r, c);
    add_gates(r, c);
    r.norm("ln1_post", "post_attention_layernorm");
    r.norm("ln2", "pre_mlp_layernorm");
    r.norm("ln2_post", "post_mlp_layernorm");
    if (!c.mixture(r.layer())) return add_llama_mlp(r, c);
    r.mixture({.router = "mlp.router.gate.weight"}, hf.output_factor());
    r.copy("mlp.choice_bias", "mlp.expert_bias");
    if (c.experts->d_shared > 0) r.shared_expert("mlp.shared_experts");
  });
}

void read_mixture(HfConfig& hf, ModelConfig& c) {
  const ConfigReader& json = hf.json();
  const auto only = [&](std::string_view key, bool usual, std::string_view expected) {
    if (usual) return;
    json.refuse(key, fmt::format("is not what transformers does for this family; expected {}", expected));
  };
  hf.require_unset({"first_k_dense_replace"});  // num_dense_layers says it for this family
  const std::int64_t dense = json.integer_or("num_dense_layers", 1);
  if (dense < 0) json.refuse("num_dense_layers", "is negative; expected a number of layers");
  read_deepseek_experts(hf, c,
                        {.n_experts = "num_experts",
                         .n_experts_alias = "num_experts",
                         .n_experts_fallback = 64,
                         .per_token_fallback = 6,
                         .shared = "num_shared_experts",
                         .shared_fallback = 2,
                         .dense_fallback = dense,
                         .routed_scale = "route_scale"});
  if (c.experts) {
    c.experts->router = RouterKind::sigmoid_then_choose;
    c.experts->choice_bias = c.experts->renormalised = true;
    c.experts->added_to_sum = kAddedToSum;
    c.least_dtypes.choice_bias = KeptInFloat32::in_half;
  }
  only("route_norm", json.boolean_or("route_norm", true), "true");
  only("score_func", json.text_or("score_func", "sigmoid") == "sigmoid", "sigmoid");
  for (const auto key : {"n_group", "topk_group"}) only(key, json.integer_or(key, 1) == 1, "1");
  json.ignore({"num_expert_groups", "num_limited_groups", "use_grouped_mm", "load_balance_coeff"});
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 16384, .d_head = 128, .eps = 1e-5});
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  c.norm_place = NormPlace::both;
  c.least_dtypes.norms = KeptInFloat32::in_float16;
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  c.gated_heads = true;
  if (!json.is_null("mup_enabled") && json.boolean_or("mup_enabled", false)) {
    c.embedding_scale = std::sqrt(static_cast<double>(c.d_model));
  }
  read_mixture(hf, c);
  constexpr std::string_view kInterval = "global_attn_every_n_layers";
  const std::int64_t interval = hf.count_or(kInterval, 4);
  LayerFlags windowed = hf.layers_of_type(c, [&](std::int64_t l) { return (l + 1) % interval != 0; });
  json.ignore({kInterval});
  hf.set_windows(c, {"sliding_window", 1024}, windowed);
  read_rope(hf, c);
  windowed.flip();
  c.rotary()->unrotated_layers = none_if_all_false(std::move(windowed));
  return c;
}

}  // namespace

extern const Family kAfmoe = llama_family("afmoe", read, recipes);

}  // namespace hooked::families::afmoe
