// Blenderbot (Roller et al. 2021): pre-norm sublayers, learned positions, no norm of the embeddings.
#include "families/shared/bart_layout.h"

namespace hooked::families::blenderbot {
namespace {

ModelConfig read(HfConfig& hf) { return read_bart_config(hf, {.n_ctx = 128, .decoder_start = 1}); }

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  add_bart_positions(r, /*offset=*/0);
  add_bart_stacks(r, c);
  return std::move(r).take();
}

}  // namespace

extern const Family kFamily = bart_family("blenderbot", read, recipes);

}  // namespace hooked::families::blenderbot
