#include "families/shared/gpt2_layout.h"

namespace hooked {

SizeKeys gpt2_size_keys(const ConfigReader& json, std::int64_t n_ctx_fallback) {
  return {.n_layers = json.first_of({"n_layer", "num_hidden_layers"}),
          .d_model = json.first_of({"n_embd", "hidden_size"}),
          .n_heads = json.first_of({"n_head", "num_attention_heads"}),
          .n_kv_heads = {},
          .d_head = {},
          .d_mlp = "n_inner",
          .mlp_ratio = 4,
          .n_ctx = json.first_of({"n_positions", "max_position_embeddings"}),
          .n_ctx_fallback = n_ctx_fallback};
}

void add_gpt2_parts(Recipes& r, const std::function<void()>& add_attention) {
  r.embedding("wte.weight");
  r.positions("wpe.weight");
  r.each_block("h.{}.", [&](std::int64_t) {
    r.norm("ln1", "ln_1");
    add_attention();
    r.norm("ln2", "ln_2");
    r.mlp_in("mlp.c_fc");
    r.mlp_out("mlp.c_proj");
  });
  r.norm("ln_final", "ln_f");
  r.unembedding("lm_head");
}

void add_gpt2_attention(Recipes& r, const FusedHeads& heads) {
  r.fused_qkv("attn.c_attn", heads);
  r.attention_out("attn.c_proj");
}

}  // namespace hooked
