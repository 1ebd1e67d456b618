#pragma once

#include "families/shared/hf_config.h"

namespace hooked {

/// Granite's multipliers on embedding, scores and logits; refuses one on sublayers that is not allowed.
void read_granite_multipliers(HfConfig& hf, ModelConfig& config);

/// The multiplier on what each sublayer writes to the stream, which goes into the weights that write it.
double granite_residual_scale(const HfConfig& hf);

}  // namespace hooked
