// BERT (Devlin et al. 2019), with or without its masked-LM head; pooler and next-sentence head are not read.
#include "families/shared/bert_layout.h"

namespace hooked::families::bert {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  add_bert_embeddings(r, /*offset=*/0);
  add_bert_blocks(r);
  add_bert_head(r);
  return std::move(r).take();
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_bert_config(hf);
  c.unembedding->mlm_head = c.activation;
  return c;
}

}  // namespace

extern const Family kFamily = bert_family("bert", "bert.", read, recipes);

}  // namespace hooked::families::bert
