// Gemma 3, its text model (Gemma Team 2025): norms of queries and keys, windowed layers with their own
// base.
#include "families/shared/gemma_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::gemma3_text {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c =
      read_gemma_config(hf, {.n_ctx = 131072, .n_kv_heads = 4, .activation_key = "hidden_activation"});
  read_gemma_caps(hf, c, {});
  if (c.score_soft_cap > 0) {
    hf.note("attn_logit_softcapping has no effect: transformers does not read it for this family");
    c.score_soft_cap = 0.0;
  }
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  const std::int64_t pattern =
      hf.json().has("sliding_window_pattern") ? hf.count("sliding_window_pattern") : 6;
  hf.json().ignore({"_sliding_window_pattern"});
  hf.set_windows(c, {"sliding_window", 4096},
                 hf.windowed_layers(c, [&](std::int64_t l) { return (l + 1) % pattern != 0; }));
  if (hf.json().boolean_or("use_bidirectional_attention", false)) {  // as in EmbeddingGemma
    if (hf.json().is_null("sliding_window")) {
      hf.json().refuse("sliding_window", "leaves open how far windows reach; expected a number");
    }
    c.direction = AttentionDirection::bidirectional;
    if (c.window) c.window->size = c.window->size / 2 + 1;  // the key counts both directions
  }
  read_layered_rope(hf, c,
                    {.theta = 1e6, .windowed_theta = 1e4, .windowed_theta_key = "rope_local_base_freq"});
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("gemma3_text", read, gemma_two_norm_recipes);

}  // namespace hooked::families::gemma3_text
