#include "families/shared/granite_layout.h"

namespace hooked {

void read_granite_multipliers(HfConfig& hf, ModelConfig& config) {
  config.embedding_scale = hf.positive_or("embedding_multiplier", 1.0);
  config.attn_scale = 1.0 / hf.positive_or("attention_multiplier", 1.0);
  config.unembedding->scale = 1.0 / hf.positive_or("logits_scaling", 1.0);
  hf.comes_from("attn_scale", hf.json().where("attention_multiplier"));
  hf.comes_from("unembedding.scale", hf.json().where("logits_scaling"));
  granite_residual_scale(hf);  // refused here if it is not allowed
}

double granite_residual_scale(const HfConfig& hf) { return hf.positive_or("residual_multiplier", 1.0); }

}  // namespace hooked
