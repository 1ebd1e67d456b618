// Qwen 1.5, 2 and 2.5 (Yang et al. 2024): Llama with biases on queries, keys and values.
#include "families/shared/llama_layout.h"
#include "families/shared/qwen_windows.h"
#include "families/shared/rope_config.h"

namespace hooked::families::qwen2 {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 32768, .n_kv_heads = 32});
  c.qkv_bias = true;
  c.default_prepend_bos = false;
  read_qwen_windows(hf, c);
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("qwen2", read, llama_recipes);

}  // namespace hooked::families::qwen2
