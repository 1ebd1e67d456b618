#pragma once

#include <vector>

#include "families/shared/llama_layout.h"

namespace hooked {

/// What the Gemma families share: norm weights stored as offsets from one, an embedding multiplied by
/// sqrt(d_model), heads of 256 dimensions by default. Without windows and positions.
ModelConfig read_gemma_config(HfConfig& hf, LlamaDefaults defaults);

/// Soft caps if the config does not have the key; 0 is none.
struct GemmaCaps {
  double scores = 0.0;
  double logits = 0.0;
};

/// Gemma 2 and 3: soft caps, score scale, norms before and after each sublayer.
void read_gemma_caps(HfConfig& hf, ModelConfig& config, const GemmaCaps& fallback);
std::vector<TensorRecipe> gemma_two_norm_recipes(const ModelConfig& config);

}  // namespace hooked
