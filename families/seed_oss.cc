// Seed-OSS (ByteDance 2025): Llama with a separate key for the output bias.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::seed_oss {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 524288, .n_kv_heads = 8, .d_head = 128});
  c.qkv_bias = hf.json().boolean_or("attention_bias", true);
  c.attn_out_bias = hf.json().boolean_or("attention_out_bias", false);
  c.mlp_bias = hf.json().boolean_or("mlp_bias", false);
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("seed_oss", read, llama_recipes);

}  // namespace hooked::families::seed_oss
