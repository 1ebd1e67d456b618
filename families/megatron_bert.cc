// Megatron-BERT (Shoeybi et al. 2019): BERT with its norms before the sublayers and one at the end, and none
// for the summed embeddings.
#include "families/shared/bert_layout.h"

namespace hooked::families::megatron_bert {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("embeddings.word_embeddings.weight");
  r.positions("embeddings.position_embeddings.weight");
  r.copy("embed.token_type_embed.W_token_type", "embeddings.token_type_embeddings.weight");
  r.each_block("encoder.layer.{}.", [&](std::int64_t) {
    r.norm("ln1", "attention.ln");
    r.queries("attention.self.query");
    r.keys("attention.self.key");
    r.values("attention.self.value");
    r.attention_out("attention.output.dense");
    r.norm("ln2", "ln");
    r.mlp_in("intermediate.dense");
    r.mlp_out("output.dense");
  });
  r.norm("ln_final", "encoder.ln");
  r.mlm_head("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm");
  r.unembedding("cls.predictions.decoder", "cls.predictions");
  return std::move(r).take();
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_bert_config(hf);
  c.norm_place = NormPlace::pre;
  c.final_norm = NormKind::layer_norm;
  c.embedding_sum_norm = false;
  c.unembedding->mlm_head = c.activation;
  return c;
}

constexpr std::string_view kBuffers[] = {"embeddings.position_ids", "cls.predictions.bias",
                                         "cls.predictions.decoder.bias"};

}  // namespace

extern const Family kFamily{.model_type = "megatron-bert",
                            .read = read,
                            .recipes = recipes,
                            .prefix = "bert.",
                            .unembedding = "cls.predictions.decoder.weight",
                            .optional_part = masked_lm_head_behind_norm("cls.predictions."),
                            .buffers = kBuffers};

}  // namespace hooked::families::megatron_bert
