#include "families/shared/cohere_layout.h"

#include "families/shared/rope_config.h"

namespace hooked {

ModelConfig read_cohere_config(HfConfig& hf, double theta) {
  ModelConfig c = read_llama_config(
      hf,
      {.n_ctx = 8192, .tied = true, .norm = NormKind::layer_norm, .eps_key = "layer_norm_eps", .eps = 1e-5});
  c.norm_bias = false;
  c.layout = BlockLayout::parallel_one_norm;
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  c.unembedding->scale = hf.positive_or("logit_scale", 0.0625);
  read_rope(hf, c, {.theta = theta, .adjacent_pairs = true});
  return c;
}

}  // namespace hooked
