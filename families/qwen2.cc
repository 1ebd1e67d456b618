// Qwen 1.5, 2 and 2.5 (Yang et al. 2024): Llama with biases on queries, keys and values.
#include "families/shared/llama_layout.h"
#include "families/shared/qwen_windows.h"
#include "families/shared/rope_config.h"

namespace hooked {
namespace {

FamilyConfig read(std::string_view text, std::string_view where) {
  const HfConfig hf(text, where);
  ModelConfig c = read_llama_config(hf, {.n_ctx = 32768, .n_kv_heads = 32});
  c.qkv_bias = true;
  c.default_prepend_bos = false;
  read_qwen_windows(hf, c);
  read_rope(hf, c);
  return hf.finish(std::move(c), llama_recipes);
}

}  // namespace

extern const Family kQwen2Family = llama_family("qwen2", read);

}  // namespace hooked
