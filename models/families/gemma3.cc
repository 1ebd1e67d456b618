// Gemma 3, its text model (Gemma Team 2025): norms of queries and keys, windowed layers with a base of their
// own.
#include "models/families/gemma_layout.h"
#include "models/families/rope_config.h"

namespace hooked {
namespace {

FamilyConfig read(std::string_view text, std::string_view where) {
  HfConfig hf(text, where);
  ModelConfig c = read_gemma_config(hf, "hidden_activation");
  read_gemma_caps(hf, c, {});
  if (c.score_soft_cap > 0) {
    hf.note("attn_logit_softcapping has no effect: transformers does not read it for this family");
    c.score_soft_cap = 0.0;
  }
  c.qk_norm = QkNorm::per_head;
  const std::int64_t pattern =
      hf.json().has("sliding_window_pattern") ? hf.count("sliding_window_pattern") : 6;
  hf.json().ignore({"_sliding_window_pattern"});
  hf.set_windows(c, {"sliding_window", 4096},
                 hf.windowed_layers(c, [&](std::int64_t l) { return (l + 1) % pattern != 0; }));
  read_layered_rope(hf, c,
                    {.theta = 1e6, .windowed_theta = 1e4, .windowed_theta_key = "rope_local_base_freq"});
  return hf.finish(std::move(c), gemma_two_norm_recipes);
}

}  // namespace

extern const Family kGemma3TextFamily = llama_family("gemma3_text", read);

}  // namespace hooked
