// The text model of Qwen 3.5 (Qwen Team 2026): gated delta nets in three of four layers, attention with gated
// heads in the others; rotary positions in sections, which make no difference for text.
#include "families/shared/delta_net_layout.h"
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::qwen3_5_text {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 32768, .n_kv_heads = 4, .d_head = 256});
  read_qwen_delta_nets(hf, c);
  c.default_prepend_bos = false;
  read_rope(hf, c, {.partial = 0.25, .sections = true});
  return c;
}

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_qwen_mixer(r, c, DeltaNetFiles::in_parts);
    r.norm("ln2", "post_attention_layernorm");
    add_llama_mlp(r, c);
  });
}

}  // namespace

extern const Family kFamily = delta_net_family("qwen3_5_text", read, recipes);

}  // namespace hooked::families::qwen3_5_text
