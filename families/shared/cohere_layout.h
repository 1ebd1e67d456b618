#pragma once

#include "families/shared/llama_layout.h"

namespace hooked {

/// Command R: attention and MLP read one LayerNorm without bias, rotary rotates adjacent pairs, logits are
/// scaled. `theta` is the rotary base of configs that name none. Without windows.
ModelConfig read_cohere_config(HfConfig& hf, double theta);

}  // namespace hooked
