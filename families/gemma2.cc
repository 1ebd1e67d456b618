// Gemma 2 (Gemma Team 2024): soft caps, four norms a block, every other layer windowed.
#include "families/shared/gemma_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::gemma2 {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c =
      read_gemma_config(hf, {.n_ctx = 8192, .n_kv_heads = 4, .activation_key = "hidden_activation"});
  read_gemma_caps(hf, c, {.scores = 50.0, .logits = 30.0});
  hf.set_windows(c, {"sliding_window", 4096},
                 hf.windowed_layers(c, [](std::int64_t l) { return l % 2 == 0; }));
  hf.json().ignore({"sliding_window_size"});  // the same as sliding_window
  // Whether its full layers are masked depends on the attention implementation in transformers.
  hf.require_unset({"use_bidirectional_attention"});
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("gemma2", read, gemma_two_norm_recipes);

}  // namespace hooked::families::gemma2
