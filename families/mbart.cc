// mBART (Liu et al. 2020) and mBART-50: BART with norms before its sublayers and after each stack.
#include "families/shared/bart_layout.h"

namespace hooked::families::mbart {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_bart_config(hf, {});
  c.embedding_sum_norm = true;
  return c;
}

}  // namespace

extern const Family kFamily = bart_family("mbart", read, bart_recipes);

}  // namespace hooked::families::mbart
