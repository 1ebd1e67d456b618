// OLMo (Groeneveld et al. 2024): LayerNorms without weights; clamped queries, keys and values.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::olmo {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("embed_tokens.weight");
  r.each_block("layers.{}.", [&](std::int64_t) {
    r.plain_norm("ln1");
    add_llama_attention(r, c);
    r.plain_norm("ln2");
    add_llama_mlp(r, c);
  });
  r.plain_norm("ln_final");
  r.unembedding("lm_head");
  return std::move(r).take();
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.norm = NormKind::layer_norm, .eps_key = "-", .eps = 1e-5});
  c.norm_bias = false;
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  if (hf.json().has("clip_qkv")) c.qkv_clip = hf.positive_or("clip_qkv", 0.0);
  hf.json().ignore({"layer_norm_eps", "rms_norm_eps"});
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("olmo", read, recipes);

}  // namespace hooked::families::olmo
