// Granite with mixtures of experts and a shared expert (Granite Team 2025).
#include "families/shared/expert_config.h"
#include "families/shared/granite_layout.h"

namespace hooked::families::granitemoeshared {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  const double residual = granite_residual_scale(hf);
  const auto add_mixture = [&](Recipes& r) {
    add_granite_mixture(r, residual);
    if (c.experts->d_shared > 0) {
      r.fused_shared_expert("shared_mlp.input_linear", "shared_mlp.output_linear", residual);
    }
  };
  return mixture_recipes(c, add_mixture, residual);
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_granite_mixture(hf);
  constexpr std::string_view kShared = "shared_intermediate_size";
  if (hf.json().integer_or(kShared, 0) != 0) c.experts->d_shared = hf.count(kShared);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("granitemoeshared", read, recipes);

}  // namespace hooked::families::granitemoeshared
