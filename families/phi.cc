// Phi 1, 1.5 and 2 (Li et al. 2023): attention and MLP read one norm, biases everywhere.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::phi {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
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

ModelConfig read(HfConfig& hf) {
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

}  // namespace

extern const Family kFamily = llama_family("phi", read, recipes);

}  // namespace hooked::families::phi
