// Jais 2 (Inception 2025): Llama with LayerNorms, biases, squared ReLU and no gate.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::jais2 {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 8192,
                                         .norm = NormKind::layer_norm,
                                         .eps_key = "layer_norm_eps",
                                         .eps = 1e-5,
                                         .mlp = MlpKind::plain,
                                         .activation = "relu2"});
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", true);
  c.mlp_bias = hf.json().boolean_or("mlp_bias", true);
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("jais2", read, llama_recipes);

}  // namespace hooked::families::jais2
