// The text model of Qwen 3-VL (Qwen Team 2025): Qwen 3 with rotary positions in sections, which make no
// difference for text.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::qwen3_vl_text {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 128000, .n_kv_heads = 32, .d_head = 128});
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  c.default_prepend_bos = false;
  read_rope(hf, c, {.theta = 5e5, .sections = true});
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("qwen3_vl_text", read, llama_recipes);

}  // namespace hooked::families::qwen3_vl_text
