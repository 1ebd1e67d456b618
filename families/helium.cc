// Helium (Kyutai 2025): Llama with adjacent rotary pairs.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked {
namespace {

FamilyConfig read(std::string_view text, std::string_view where) {
  const HfConfig hf(text, where);
  ModelConfig c = read_llama_config(hf, {.n_ctx = 4096, .n_kv_heads = 20, .d_head = 128, .eps = 1e-8});
  c.qkv_bias = hf.json().boolean_or("attention_bias", false);
  c.mlp_bias = hf.json().boolean_or("mlp_bias", false);
  read_rope(hf, c, {.theta = 1e5, .adjacent_pairs = true});
  return hf.finish(std::move(c), llama_recipes);
}

}  // namespace

extern const Family kHeliumFamily = llama_family("helium", read);

}  // namespace hooked
