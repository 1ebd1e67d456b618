// The text model of Qwen 2-VL and 2.5-VL (Bai et al. 2025): Qwen 2 with rotary positions in sections, which
// make no difference for text.
#include "families/shared/llama_layout.h"
#include "families/shared/qwen_windows.h"
#include "families/shared/rope_config.h"

namespace hooked::families::qwen2_5_vl_text {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 32768, .n_kv_heads = 8, .eps = 1e-5});
  c.qkv_bias = true;
  c.default_prepend_bos = false;
  read_qwen_windows(hf, c, /*first=*/80);
  read_rope(hf, c, {.theta = 1e6, .sections = true});
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("qwen2_5_vl_text", read, llama_recipes);

}  // namespace hooked::families::qwen2_5_vl_text
