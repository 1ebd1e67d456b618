// Persimmon (Adept 2023): fused projections with biases, LayerNorms of queries and keys, squared ReLU.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::persimmon {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("embed_tokens.weight");
  r.each_block("layers.{}.", [&](std::int64_t) {
    r.norm("ln1", "input_layernorm");
    r.fused_qkv("self_attn.query_key_value", FusedHeads::by_group(c));
    if (c.qk_norm) r.qk_norm("self_attn.q_layernorm", "self_attn.k_layernorm");
    r.attention_out("self_attn.dense");
    r.norm("ln2", "post_attention_layernorm");
    r.mlp_in("mlp.dense_h_to_4h");
    r.mlp_out("mlp.dense_4h_to_h");
  });
  r.norm("ln_final", "final_layernorm");
  r.unembedding("lm_head");
  return std::move(r).take();
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 16384,
                                         .norm = NormKind::layer_norm,
                                         .eps_key = "layer_norm_eps",
                                         .eps = 1e-5,
                                         .mlp = MlpKind::plain,
                                         .activation = "relu2"});
  c.qkv_bias = c.attn_out_bias = c.mlp_bias = true;
  if (hf.json().boolean_or("qk_layernorm", true)) {
    c.qk_norm = QkNorm{.span = QkNorm::per_head, .kind = NormKind::layer_norm, .bias = true};
  }
  read_rope(hf, c, {.theta = 10000.0, .partial = 0.5});
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("persimmon", read, recipes);

}  // namespace hooked::families::persimmon
