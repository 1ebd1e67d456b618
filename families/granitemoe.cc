// Granite with mixtures of experts (Granite Team 2024): its multipliers, and a softmax over the chosen
// logits.
#include "families/shared/expert_config.h"
#include "families/shared/granite_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::granitemoe {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  const double residual = granite_residual_scale(hf);
  return mixture_recipes(
      c, [residual](Recipes& r) { add_granite_mixture(r, residual); }, residual);
}

ModelConfig read(HfConfig& hf) { return read_granite_mixture(hf); }

}  // namespace

extern const Family kFamily = llama_family("granitemoe", read, recipes);

}  // namespace hooked::families::granitemoe
