#include "families/shared/bert_layout.h"

#include <utility>

namespace hooked {

ModelConfig as_encoder(ModelConfig config, Activation head) {
  config.direction = AttentionDirection::bidirectional;
  config.norm_place = NormPlace::post;
  config.final_norm = NormKind::none;
  config.embedding_sum_norm = true;
  config.mlp_bias = config.qkv_bias = config.attn_out_bias = config.unembedding->bias = true;
  config.unembedding->mlm_head = head;
  return config;
}

ModelConfig read_bert_config(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = as_encoder(hf.sizes({.n_kv_heads = {}, .d_head = {}, .n_ctx_fallback = 512}, /*tied=*/true),
                             Activation::gelu);
  if (json.boolean_or("is_decoder", false)) c.direction = AttentionDirection::causal;
  c.activation = hf.activation("hidden_act", "gelu");
  c.eps = hf.positive_or("layer_norm_eps", 1e-12);
  c.token_types = json.has("type_vocab_size") ? hf.count("type_vocab_size") : 2;
  if (json.text_or("position_embedding_type", "absolute") != "absolute") {
    json.refuse("position_embedding_type", "is not supported; expected absolute, or no such key");
  }
  hf.require_unset({"add_cross_attention"});
  // About a pooler that masked language models do not have.
  json.ignore({"pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
               "pooler_type", "directionality"});
  return c;
}

void add_bert_embeddings(Recipes& r, std::int64_t offset) {
  add_bert_embeddings(r, [&] { r.positions("embeddings.position_embeddings.weight", offset); });
}

void add_bert_embeddings(Recipes& r, const std::function<void()>& add_positions) {
  r.embedding("embeddings.word_embeddings.weight");
  add_positions();
  r.copy("embed.token_type_embed.W_token_type", "embeddings.token_type_embeddings.weight");
  r.norm("embed.ln", "embeddings.LayerNorm");
}

void add_bert_attention(Recipes& r) {
  r.queries("attention.self.query");
  r.keys("attention.self.key");
  r.values("attention.self.value");
  r.attention_out("attention.output.dense");
}

void add_bert_mlp(Recipes& r) {
  r.mlp_in("intermediate.dense");
  r.mlp_out("output.dense");
}

void add_bert_blocks(Recipes& r) {
  r.each_block("encoder.layer.{}.", [&](std::int64_t) {
    add_bert_attention(r);
    r.norm("ln1", "attention.output.LayerNorm");
    add_bert_mlp(r);
    r.norm("ln2", "output.LayerNorm");
  });
}

void add_bert_head(Recipes& r) {
  r.mlm_head("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm");
  r.unembedding("cls.predictions.decoder", "cls.predictions");
}

}  // namespace hooked
