// The text model of Gemma 4 without towers for images and sounds (Google 2026).
#include "families/shared/gemma4_layout.h"

namespace hooked::families::gemma4_unified_text {
namespace {

ModelConfig read(HfConfig& hf) { return read_gemma4_config(hf, {.n_ctx = 262144, .window = 1024}); }

}  // namespace

extern const Family kFamily = llama_family("gemma4_unified_text", read, gemma4_recipes);

}  // namespace hooked::families::gemma4_unified_text
