#include "families/shared/roberta_layout.h"

#include <fmt/format.h>

#include <utility>

namespace hooked {

std::int64_t roberta_position_offset(const HfConfig& hf) {
  return hf.json().integer_or("pad_token_id", 1) + 1;
}

ModelConfig read_roberta_config(HfConfig& hf) {
  ModelConfig c = read_bert_config(hf);
  const std::int64_t offset = roberta_position_offset(hf);
  if (offset < 1 || offset >= c.n_ctx) {
    hf.json().refuse(
        "pad_token_id",
        fmt::format("is out of range: positions are counted from the row after it; expected 0 to {}",
                    c.n_ctx - 2));
  }
  c.n_ctx -= offset;
  hf.positions_count_without(offset - 1);
  return c;
}

void add_roberta_head(Recipes& r) {
  r.mlm_head("lm_head.dense", "lm_head.layer_norm");
  r.unembedding("lm_head.decoder", "lm_head");
}

std::vector<TensorRecipe> roberta_recipes(const ModelConfig& config, const HfConfig& hf) {
  Recipes r(config);
  add_bert_embeddings(r, roberta_position_offset(hf));
  add_bert_blocks(r);
  add_roberta_head(r);
  return std::move(r).take();
}

}  // namespace hooked
