#include "families/shared/mistral_config.h"

#include "families/shared/rope_config.h"

namespace hooked {

ModelConfig read_mistral_config(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 8});
  hf.set_windows(c, {"sliding_window", 4096, /*null_is_none=*/!hf.json().has("layer_types")},
                 hf.windowed_layers(c, [](std::int64_t) { return true; }));
  read_rope(hf, c);
  return c;
}

}  // namespace hooked
