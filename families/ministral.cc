// Ministral (Mistral AI 2024): Mistral with windows on some layers.
#include "families/shared/mistral_config.h"

namespace hooked::families::ministral {

extern const Family kFamily = llama_family("ministral", read_mistral_config, llama_recipes);

}  // namespace hooked::families::ministral
