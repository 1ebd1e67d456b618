// ERNIE 4.5, the dense models (Baidu 2025): Llama with adjacent rotary pairs.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::ernie4_5 {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c =
      read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 2, .tied = true, .d_head = 128, .eps = 1e-5});
  c.qkv_bias = c.attn_out_bias = c.mlp_bias = hf.json().boolean_or("use_bias", false);
  read_rope(hf, c, {.theta = 5e5, .adjacent_pairs = true});
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("ernie4_5", read, llama_recipes);

}  // namespace hooked::families::ernie4_5
