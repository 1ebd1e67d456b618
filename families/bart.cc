// BART (Lewis et al. 2020): post-norm sublayers, learned positions after two unused rows, and a norm of the
// summed embeddings, in each stack.
#include "families/shared/bart_layout.h"

namespace hooked::families::bart {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = with_post_norms(read_bart_config(hf, {.decoder_start = 2}));
  c.embedding_sum_norm = true;
  return c;
}

}  // namespace

extern const Family kFamily = bart_family("bart", read, bart_recipes);

}  // namespace hooked::families::bart
