// PLBART (Ahmad et al. 2021): BART for programs, with a scaled embedding.
#include "families/shared/bart_layout.h"

namespace hooked::families::plbart {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = with_post_norms(read_bart_config(hf, {.scale_embedding = true, .decoder_start = {}}));
  c.embedding_sum_norm = true;
  return c;
}

}  // namespace

extern const Family kFamily = bart_family("plbart", read, bart_recipes);

}  // namespace hooked::families::plbart
