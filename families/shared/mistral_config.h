#pragma once

#include "families/shared/llama_layout.h"

namespace hooked {

/// Llama with a window on the layers that `layer_types` names, or on every layer if it is absent.
ModelConfig read_mistral_config(HfConfig& hf);

}  // namespace hooked
