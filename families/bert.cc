// BERT (Devlin et al. 2019), with its masked-LM head or without; pooler and next-sentence head are not read.
#include "families/shared/bert_layout.h"

namespace hooked::families::bert {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  add_bert_body(r, /*offset=*/0);
  r.mlm_head("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm");
  r.unembedding("cls.predictions.decoder", "cls.predictions");
  return std::move(r).take();
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_bert_config(hf);
  c.unembedding->mlm_head = c.activation;
  return c;
}

constexpr std::string_view kBuffers[] = {"embeddings.position_ids", "embeddings.token_type_ids",
                                         "cls.predictions.bias", "cls.predictions.decoder.bias"};

}  // namespace

extern const Family kFamily{.model_type = "bert",
                            .read = read,
                            .recipes = recipes,
                            .prefix = "bert.",
                            .unembedding = "cls.predictions.decoder.weight",
                            .optional_part = masked_lm_head("cls.predictions."),
                            .buffers = kBuffers};

}  // namespace hooked::families::bert
