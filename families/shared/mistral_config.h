#pragma once

#include "families/shared/llama_layout.h"

namespace hooked {

/// Llama with a window on the layers that `layer_types` names, which is every layer where it is absent.
ModelConfig read_mistral_config(HfConfig& hf);

}  // namespace hooked
