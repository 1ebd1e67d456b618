// Granite with mixtures of experts and an additional MLP that sees every token (Granite Team 2024).
#include "families/shared/granite_layout.h"
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::granitemoeshared {
namespace {

ModelConfig read(HfConfig& hf) {
  constexpr std::string_view kShared = "shared_intermediate_size";
  const bool none = hf.json().integer_or(kShared, 0) == 0;
  ModelConfig c = read_granite_mixture_config(hf, {.d_shared = none ? 0 : hf.count(kShared)});
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("granitemoeshared", read, granite_mixture_recipes);

}  // namespace hooked::families::granitemoeshared
