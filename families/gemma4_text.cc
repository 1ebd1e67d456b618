// Gemma 4, its text model (Google 2026), with or without experts in addition to its MLPs.
#include "families/shared/gemma4_layout.h"

namespace hooked::families::gemma4_text {
namespace {

ModelConfig read(HfConfig& hf) {
  return read_gemma4_config(hf, {.n_ctx = 131072, .window = 512, .layer_input = 256, .mixtures = true});
}

}  // namespace

extern const Family kFamily = llama_family("gemma4_text", read, gemma4_recipes);

}  // namespace hooked::families::gemma4_text
