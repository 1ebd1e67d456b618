// Granite with mixtures of experts (Granite Team 2024): its multipliers, and a softmax over the chosen
// logits.
#include "families/shared/granite_layout.h"
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::granitemoe {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_granite_mixture_config(hf, {});
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("granitemoe", read, granite_mixture_recipes);

}  // namespace hooked::families::granitemoe
