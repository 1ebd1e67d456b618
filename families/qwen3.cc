// Qwen 3 (Yang et al. 2025): Llama with a norm on each query and key.
#include "families/shared/llama_layout.h"
#include "families/shared/qwen_windows.h"
#include "families/shared/rope_config.h"

namespace hooked::families::qwen3 {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 32768, .n_kv_heads = 32, .d_head = 128});
  read_llama_biases(hf, c);
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  c.default_prepend_bos = false;
  read_qwen_windows(hf, c);
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("qwen3", read, llama_recipes);

}  // namespace hooked::families::qwen3
