// OLMo 2 (OLMo Team 2024): outputs of sublayers are normed; one norm over all heads of queries and of keys.
#include "families/shared/olmo2_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::olmo2 {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_olmo2_config(hf, QkNorm::whole_projection);
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("olmo2", read, olmo2_recipes);

}  // namespace hooked::families::olmo2
