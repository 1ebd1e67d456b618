// CWM, the Code World Model (FAIR 2025): Llama with three of four layers windowed.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::cwm {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 8, .d_head = 128, .eps = 1e-5});
  c.mlp_bias = hf.json().boolean_or("mlp_bias", false);
  hf.set_windows(c, {"sliding_window", 8192},
                 hf.windowed_layers(c, [](std::int64_t l) { return l % 4 != 0; }));
  read_rope(hf, c, {.theta = 1e6, .group = R"({"rope_type": "llama3", "rope_theta": 1000000.0, "factor": 16.0,
                          "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                          "original_max_position_embeddings": 8192})"});
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("cwm", read, llama_recipes);

}  // namespace hooked::families::cwm
