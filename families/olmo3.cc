// OLMo 3 (OLMo Team 2025): OLMo 2 with three windowed layers of four; scaling on the full ones only.
#include "families/shared/olmo2_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::olmo3 {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_olmo2_config(hf, QkNorm::whole_projection);
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  hf.set_windows(c, {"sliding_window", 4096},
                 hf.windowed_layers(c, [](std::int64_t l) { return (l + 1) % 4 != 0; }));
  read_layered_rope(hf, c, {.theta = 5e5, .windowed_theta = 5e5});
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("olmo3", read, olmo2_recipes);

}  // namespace hooked::families::olmo3
