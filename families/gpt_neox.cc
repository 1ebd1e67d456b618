// GPT-NeoX and Pythia (Black et al. 2022; Biderman et al. 2023): attention and MLP in parallel, each with a
// norm.
#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"
#include "families/shared/rope_config.h"

namespace hooked::families::gpt_neox {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("embed_in.weight");
  r.each_block("layers.{}.", [&](std::int64_t) {
    r.norm("ln1", "input_layernorm");
    r.fused_qkv("attention.query_key_value", FusedHeads::by_group(c));
    r.attention_out("attention.dense");
    r.norm("ln2", "post_attention_layernorm");
    r.mlp_in("mlp.dense_h_to_4h");
    r.mlp_out("mlp.dense_4h_to_h");
  });
  r.norm("ln_final", "final_layer_norm");
  r.unembedding("embed_out", "lm_head");
  return std::move(r).take();
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = hf.sizes({.n_kv_heads = {}, .d_head = {}, .n_ctx_fallback = 2048}, /*tied=*/false);
  c.layout =
      json.boolean_or("use_parallel_residual", true) ? BlockLayout::parallel_two_norms : BlockLayout::serial;
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", true);
  c.mlp_bias = true;
  c.eps = hf.positive_or("layer_norm_eps", 1e-5);
  c.activation = hf.activation("hidden_act", "gelu");
  c.default_prepend_bos = false;
  read_rope(hf, c, {.partial = 0.25, .theta_key = "rotary_emb_base", .partial_key = "rotary_pct"});
  json.ignore({"rope_theta", "partial_rotary_factor"});  // written in addition to the pair that counts
  return c;
}

constexpr std::string_view kBuffers[] = {"layers.*.attention.bias", "layers.*.attention.masked_bias",
                                         "*rotary_emb.inv_freq"};

}  // namespace

extern const Family kFamily{.model_type = "gpt_neox",
                            .read = read,
                            .recipes = recipes,
                            .prefix = "gpt_neox.",
                            .unembedding = "embed_out.weight",
                            .buffers = kBuffers};

}  // namespace hooked::families::gpt_neox
