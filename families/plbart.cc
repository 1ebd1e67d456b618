// PLBART (Ahmad et al. 2021): BART for programs, with a scaled embedding.
#include "families/shared/bart_layout.h"
#include "families/shared/fairseq_layout.h"

namespace hooked::families::plbart {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = with_post_norms(read_bart_config(hf, {.scale_embedding = true, .decoder_start = {}}));
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

extern const Family kFamily = bart_family("plbart", read, recipes);

}  // namespace hooked::families::plbart
