// Phi (Microsoft).
#include <optional>

#include "families/shared/expert_config.h"
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::phi {
namespace {

// Phi 1, 1.5 and 2 (Li et al. 2023): attention and MLP read one norm, biases everywhere.

std::vector<TensorRecipe> phi_recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("embed_tokens.weight");
  r.each_block("layers.{}.", [&](std::int64_t) {
    r.norm("ln1", "input_layernorm");
    r.queries("self_attn.q_proj");
    r.keys("self_attn.k_proj");
    r.values("self_attn.v_proj");
    if (c.qk_norm) r.qk_norm("self_attn.q_layernorm", "self_attn.k_layernorm");
    r.attention_out("self_attn.dense");
    r.mlp_in("mlp.fc1");
    r.mlp_out("mlp.fc2");
  });
  r.norm("ln_final", "final_layernorm");
  r.unembedding("lm_head");
  return std::move(r).take();
}

ModelConfig read_phi(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.norm = NormKind::layer_norm,
                                         .eps_key = "layer_norm_eps",
                                         .eps = 1e-5,
                                         .mlp = MlpKind::plain,
                                         .activation = "gelu_new"});
  c.layout = BlockLayout::parallel_one_norm;
  c.qkv_bias = c.attn_out_bias = c.mlp_bias = c.unembedding->bias = true;
  if (hf.json().boolean_or("qk_layernorm", false)) {
    c.qk_norm = QkNorm{.span = QkNorm::per_head, .kind = NormKind::layer_norm, .bias = true};
  }
  read_rope(hf, c, {.partial = 0.5});
  return c;
}

// Phi 3 and 4 (Abdin et al. 2024): fused projections, longrope.

std::vector<TensorRecipe> phi3_recipes(const ModelConfig& c) {
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    r.fused_qkv("self_attn.qkv_proj", FusedHeads::side_by_side(c));
    r.attention_out("self_attn.o_proj");
    r.norm("ln2", "post_attention_layernorm");
    r.fused_gate_up("mlp.gate_up_proj");
    r.mlp_out("mlp.down_proj");
  });
}

ModelConfig read_phi3(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 4096, .eps = 1e-5});
  hf.set_windows(c, {.name = "sliding_window", .null_is_none = true}, LayerFlags(c.n_layers, true));
  hf.json().ignore(
      {"full_attn_mod", "interpolate_factor"});  // of Phi 4's own code; transformers reads neither
  read_rope(hf, c, {.partial = 1.0, .original_n_ctx = 4096.0, .calls_longrope_yarn = true});
  return c;
}

// Phi-3.5-MoE (Abdin et al. 2024): LayerNorms, biases, and a sparse mixer of two experts.

std::vector<TensorRecipe> phimoe_recipes(const ModelConfig& c) {
  return mixture_recipes(c, [](Recipes& r) {
    MixtureNames names = mixtral_names();
    names.router_alias = "mlp.router.weight";
    r.mixture(names);
  });
}

// Longrope with separate magnitudes for short rows and long ones. transformers uses the short factors for
// rows of every length.
void read_phimoe_rope(HfConfig& hf, ModelConfig& config) {
  const ConfigReader& json = hf.json();
  std::optional<double> short_magnitude, long_magnitude;
  const ConfigReader group = rope_group(json);
  if (group.has("short_mscale")) short_magnitude = group.number("short_mscale");
  if (group.has("long_mscale")) long_magnitude = group.number("long_mscale");
  read_rope(hf, config, {.theta = 1e6, .of_one_kind = true});  // its group overrides the key above it
  if (std::holds_alternative<NoScaling>(config.rotary()->scaling)) return;
  auto* scaling = std::get_if<LongropeScaling>(&config.rotary()->scaling);
  if (scaling == nullptr || !short_magnitude || !long_magnitude) {
    group.refuse("rope_type",
                 "is not supported by this family; expected longrope with short_mscale and long_mscale");
  }
  scaling->attention_factor = *short_magnitude;
  hf.comes_from("rotary.longrope.attention_factor", group.where("short_mscale"));
  hf.comes_from("rotary.longrope.long_attention_factor", group.where("long_mscale"));
  if (*long_magnitude != *short_magnitude) scaling->long_attention_factor = *long_magnitude;
  if (scaling->long_factors == scaling->short_factors) return;
  scaling->long_factors = scaling->short_factors;
  hf.note(
      "rope_scaling: long_factor has no effect: transformers takes short_factor for rows of every length");
}

ModelConfig read_phimoe(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c =
      read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 8, .norm = NormKind::layer_norm, .eps = 1e-5});
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  c.unembedding->bias = json.boolean_or("lm_head_bias", false);
  read_experts(hf, c, {.n_experts_fallback = 16, .per_token_fallback = 2});
  if (c.experts->n_experts < 2) json.refuse("num_local_experts", "is too few; expected at least 2");
  if (c.experts->per_token != 2) {
    c.experts->per_token = 2;
    hf.note("num_experts_per_tok has no effect: this router always chooses two, in transformers too");
  }
  c.experts->router = RouterKind::sparse_mixer;
  c.experts->mixer_tolerance = 2.0 * json.number_or("router_jitter_noise", 0.01);
  hf.comes_from("experts.mixer_tolerance", json.where("router_jitter_noise"));
  json.ignore({"input_jitter_noise"});
  hf.set_windows(c, {.name = "sliding_window", .null_is_none = true}, LayerFlags(c.n_layers, true));
  read_phimoe_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kPhi = llama_family("phi", read_phi, phi_recipes);
extern const Family kPhi3 = llama_family("phi3", read_phi3, phi3_recipes);
extern const Family kPhimoe = llama_family("phimoe", read_phimoe, phimoe_recipes);

}  // namespace hooked::families::phi
