// RoBERTa with pre-norm sublayers (Ott et al. 2019 for fairseq; Wettig et al. 2023).
#include "families/shared/roberta_layout.h"

namespace hooked::families::roberta_prelayernorm {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_roberta_config(hf);
  c.norm_place = NormPlace::pre;
  c.final_norm = NormKind::layer_norm;
  return c;
}

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  Recipes r(c);
  add_bert_embeddings(r, roberta_position_offset(hf));
  r.each_block("encoder.layer.{}.", [&](std::int64_t) {
    add_bert_attention(r);
    r.norm("ln1", "attention.LayerNorm");
    r.norm("ln2", "intermediate.LayerNorm");
    add_bert_mlp(r);
  });
  if (c.final_norm != NormKind::none) r.norm("ln_final", "LayerNorm");
  add_roberta_head(r);
  return std::move(r).take();
}

}  // namespace

extern const Family kFamily = roberta_family("roberta-prelayernorm", "roberta_prelayernorm.", read, recipes);

}  // namespace hooked::families::roberta_prelayernorm
