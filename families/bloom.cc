// BLOOM (Le Scao et al. 2022): a norm after the embedding, ALiBi.
#include "families/shared/alibi.h"
#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked::families::bloom {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("word_embeddings.weight");
  r.norm("embed.ln", "word_embeddings_layernorm");
  r.each_block("h.{}.", [&](std::int64_t) {
    r.norm("ln1", "input_layernorm");
    r.fused_qkv("self_attention.query_key_value", FusedHeads::by_group(c));
    r.attention_out("self_attention.dense");
    r.norm("ln2", "post_attention_layernorm");
    r.mlp_in("mlp.dense_h_to_4h");
    r.mlp_out("mlp.dense_4h_to_h");
  });
  r.norm("ln_final", "ln_f");
  r.unembedding("lm_head");
  return std::move(r).take();
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = hf.sizes({.n_layers = json.first_of({"n_layer", "num_hidden_layers"}),
                            .d_model = json.first_of({"n_embed", "hidden_size"}),
                            .n_heads = json.first_of({"n_head", "num_attention_heads"}),
                            .n_kv_heads = {},
                            .d_head = {},
                            .d_mlp = {},
                            .mlp_ratio = 4,
                            .n_ctx = {},
                            .n_ctx_fallback = kUnlimitedContext},
                           /*tied=*/true);
  json.ignore({"n_layer", "num_hidden_layers", "n_embed", "hidden_size", "n_head", "num_attention_heads",
               "seq_length", "attention_softmax_in_fp32", "masked_softmax_fusion", "bias_dropout_fusion",
               "slow_but_exact", "offset_alibi"});
  c.mlp_bias = c.qkv_bias = c.attn_out_bias = true;
  c.post_embedding_norm = true;
  c.eps = hf.positive_or("layer_norm_epsilon", 1e-5);
  c.activation = Activation::gelu_bloom;
  c.positions = AlibiPositions{.slopes = appended_alibi_slopes(c.n_heads)};
  c.default_prepend_bos = false;
  if (json.boolean_or("apply_residual_connection_post_layernorm", false)) c.norm_place = NormPlace::stream;
  return c;
}

}  // namespace

extern const Family kFamily{.model_type = "bloom",
                            .read = read,
                            .recipes = recipes,
                            .prefix = "transformer.",
                            .unembedding = "lm_head.weight"};

}  // namespace hooked::families::bloom
