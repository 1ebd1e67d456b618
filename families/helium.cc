// Helium (Kyutai 2025): Llama with adjacent rotary pairs.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::helium {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 4096, .n_kv_heads = 20, .d_head = 128, .eps = 1e-8});
  c.qkv_bias = hf.json().boolean_or("attention_bias", false);
  c.mlp_bias = hf.json().boolean_or("mlp_bias", false);
  read_rope(hf, c, {.theta = 1e5, .adjacent_pairs = true});
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("helium", read, llama_recipes);

}  // namespace hooked::families::helium
