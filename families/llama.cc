// Llama 1 to 3 (Touvron et al. 2023; Grattafiori et al. 2024).
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked {
namespace {

FamilyConfig read(std::string_view text, std::string_view where) {
  const HfConfig hf(text, where);
  ModelConfig c = read_llama_config(hf);
  read_llama_biases(hf, c);
  read_rope(hf, c);
  return hf.finish(std::move(c), llama_recipes);
}

}  // namespace

extern const Family kLlamaFamily = llama_family("llama", read);

}  // namespace hooked
