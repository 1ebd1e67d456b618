// Phi-3.5-MoE (Abdin et al. 2024): LayerNorms, biases, and a sparse mixer of two experts.
#include <optional>

#include "families/shared/expert_config.h"
#include "families/shared/rope_config.h"

namespace hooked::families::phimoe {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  return mixture_recipes(c, [](Recipes& r) {
    r.mixture({.router = "block_sparse_moe.gate.weight",
               .router_alias = "mlp.router.weight",
               .expert = "block_sparse_moe.experts.{}.",
               .gate = "w1",
               .in = "w3",
               .out = "w2"});
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

ModelConfig read(HfConfig& hf) {
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
  hf.set_windows(c, {.name = "sliding_window", .null_is_none = true},
                 flag_layers(c, [](std::int64_t) { return true; }));
  read_phimoe_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("phimoe", read, recipes);

}  // namespace hooked::families::phimoe
