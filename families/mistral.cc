// Mistral (Jiang et al. 2023): Llama with a window on every layer.
#include "families/shared/mistral_config.h"

namespace hooked::families::mistral {

extern const Family kFamily = llama_family("mistral", read_mistral_config, llama_recipes);

}  // namespace hooked::families::mistral
