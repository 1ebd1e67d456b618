// PEGASUS (Zhang et al. 2020): pre-norm sublayers, positions of sines and cosines, stored in files.
#include "families/shared/bart_layout.h"

namespace hooked::families::pegasus {
namespace {

ModelConfig read(HfConfig& hf) { return read_bart_config(hf, {.decoder_start = 0}); }

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  add_bart_positions(r, /*offset=*/0);
  add_bart_stacks(r, c);
  return std::move(r).take();
}

}  // namespace

extern const Family kFamily = bart_family("pegasus", read, recipes);

}  // namespace hooked::families::pegasus
