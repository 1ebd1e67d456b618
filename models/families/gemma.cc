// Gemma (Gemma Team 2024).
#include "models/families/gemma_layout.h"
#include "models/families/rope_config.h"

namespace hooked {
namespace {

FamilyConfig read(std::string_view text, std::string_view where) {
  const HfConfig hf(text, where);
  ModelConfig c = read_gemma_config(hf, "hidden_act");
  read_rope(hf, c);
  return hf.finish(std::move(c), llama_recipes);
}

}  // namespace

extern const Family kGemmaFamily = llama_family("gemma", read);

}  // namespace hooked
