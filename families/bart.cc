// BART (Lewis et al. 2020): norms behind the additions, learned positions behind two unused rows, and a norm
// over the sum of embeddings, in each stack.
#include "families/shared/bart_layout.h"
#include "families/shared/fairseq_layout.h"

namespace hooked::families::bart {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = with_post_norms(read_bart_config(hf, {.decoder_start = 2}));
  c.embedding_sum_norm = true;
  return c;
}

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  add_bart_positions(r, kFairseqPositionOffset);
  add_bart_stacks(r, c);
  return std::move(r).take();
}

}  // namespace

extern const Family kFamily = bart_family("bart", read, recipes);

}  // namespace hooked::families::bart
