#pragma once

#include "families/shared/hf_config.h"

namespace hooked {

/// Granite's multipliers on embedding, scores and logits. Returns the one on what each sublayer writes.
inline double read_granite_multipliers(const HfConfig& hf, ModelConfig& config) {
  config.embedding_scale = hf.positive_or("embedding_multiplier", 1.0);
  config.attn_scale = 1.0 / hf.positive_or("attention_multiplier", 1.0);
  config.logit_scale = 1.0 / hf.positive_or("logits_scaling", 1.0);
  hf.made_from("attn_scale", hf.json().where("attention_multiplier"));
  hf.made_from("logit_scale", hf.json().where("logits_scaling"));
  return hf.positive_or("residual_multiplier", 1.0);
}

}  // namespace hooked
