// BERT (Devlin et al. 2019), with its masked-LM head or without; pooler and next-sentence head are not read.
#include "families/shared/bert_layout.h"

namespace hooked {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  add_bert_body(r, /*offset=*/0);
  r.mlm_head("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm");
  r.unembedding("cls.predictions.decoder", "cls.predictions");
  return std::move(r).take();
}

FamilyConfig read(std::string_view text, std::string_view where) {
  const HfConfig hf(text, where);
  ModelConfig c = read_bert_config(hf);
  c.mlm_head = c.activation;
  return hf.finish(std::move(c), recipes);
}

constexpr std::string_view kBuffers[] = {"embeddings.position_ids", "embeddings.token_type_ids",
                                         "cls.predictions.bias", "cls.predictions.decoder.bias"};

}  // namespace

extern const Family kBertFamily{.model_type = "bert",
                                .read = read,
                                .prefix = "bert.",
                                .unembedding = "cls.predictions.decoder.weight",
                                .head = "cls.predictions.",
                                .buffers = kBuffers};

}  // namespace hooked
