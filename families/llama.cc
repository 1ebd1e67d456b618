// Llama 1 to 3 (Touvron et al. 2023; Grattafiori et al. 2024).
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::llama {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf);
  read_llama_biases(hf, c);
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("llama", read, llama_recipes);

}  // namespace hooked::families::llama
