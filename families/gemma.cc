// Gemma (Gemma Team 2024).
#include "families/shared/gemma_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::gemma {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_gemma_config(hf, {.n_ctx = 8192, .n_kv_heads = 16, .activation_key = "hidden_act"});
  // Whether its full layers are masked depends on the attention implementation in transformers.
  hf.require_unset({"use_bidirectional_attention"});
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("gemma", read, llama_recipes);

}  // namespace hooked::families::gemma
