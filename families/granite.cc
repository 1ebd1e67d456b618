// Granite 3 (Granite Team 2024): Llama with multipliers on embedding, sublayers, scores and logits.
#include "families/shared/granite_layout.h"
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::granite {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  return scaled_llama_recipes(c, granite_residual_scale(hf));
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf);
  read_llama_biases(hf, c);
  read_granite_multipliers(hf, c);
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("granite", read, recipes);

}  // namespace hooked::families::granite
