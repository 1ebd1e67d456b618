// nanochat (Karpathy 2025): norms without weights, one of them after the embedding and one on queries and
// keys after rotary, which rotates in the other direction; squared ReLU.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::nanochat {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("embed_tokens.weight");
  r.plain_norm("embed.ln");
  r.each_block("layers.{}.", [&](std::int64_t) {
    r.plain_norm("ln1");
    r.queries("self_attn.q_proj");
    r.keys("self_attn.k_proj");
    r.values("self_attn.v_proj");
    r.plain_qk_norm();
    r.attention_out("self_attn.o_proj");
    r.plain_norm("ln2");
    r.mlp_in("mlp.fc1");
    r.mlp_out("mlp.fc2");
  });
  r.plain_norm("ln_final");
  r.unembedding("lm_head");
  return std::move(r).take();
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 2048, .mlp = MlpKind::plain, .activation = "relu2"});
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  c.post_embedding_norm = true;
  c.embedding_norm = NormKind::rms_norm;
  c.qk_norm = QkNorm{.span = QkNorm::per_head, .after_rotary = true};
  if (!hf.json().is_null("final_logit_softcapping"))
    c.unembedding->soft_cap = hf.positive_or("final_logit_softcapping", 15.0);
  read_rope(hf, c);
  c.rotary()->reversed = true;
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("nanochat", read, recipes);

}  // namespace hooked::families::nanochat
