// Gemma 1 to 3.
#include <cmath>
#include <vector>

#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::gemma {
namespace {

/// Soft caps if the config does not have the key; 0 is none.
struct GemmaCaps {
  double scores = 0.0;
  double logits = 0.0;
};

// What the Gemma families share: norm weights stored as offsets from one, an embedding multiplied by
// sqrt(d_model), heads of 256 dimensions by default. Without windows and positions.
ModelConfig read_gemma_config(HfConfig& hf, LlamaDefaults defaults) {
  defaults.tied = true;
  defaults.d_head = 256;
  defaults.activation = "gelu_pytorch_tanh";
  ModelConfig c = read_llama_config(hf, defaults);
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  c.norm_offset = true;
  c.embedding_scale = std::sqrt(static_cast<double>(c.d_model));
  hf.json().ignore({"hidden_act", "hidden_activation"});
  return c;
}

// Gemma 2 and 3: soft caps, score scale, norms before and after each sublayer.
void read_gemma_caps(HfConfig& hf, ModelConfig& config, const GemmaCaps& fallback) {
  config.norm_place = NormPlace::both;
  config.attn_scale = std::sqrt(hf.positive_or("query_pre_attn_scalar", 256.0));
  const auto cap = [&](std::string_view key, double absent) {
    if (hf.json().is_null(key)) return 0.0;
    return hf.json().has(key) ? hf.positive_or(key, absent) : absent;
  };
  config.score_soft_cap = cap("attn_logit_softcapping", fallback.scores);
  config.unembedding->soft_cap = cap("final_logit_softcapping", fallback.logits);
}

// The norms after the sublayers are there unless the config says otherwise.
std::vector<TensorRecipe> gemma_two_norm_recipes(const ModelConfig& config) {
  const bool both = config.norm_place == NormPlace::both;
  return llama_stack(config, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_llama_attention(r, config);
    if (both) r.norm("ln1_post", "post_attention_layernorm");
    r.norm("ln2", "pre_feedforward_layernorm");
    add_llama_mlp(r, config);
    if (both) r.norm("ln2_post", "post_feedforward_layernorm");
  });
}

// Gemma (Gemma Team 2024).
ModelConfig read_gemma(HfConfig& hf) {
  ModelConfig c = read_gemma_config(hf, {.n_ctx = 8192, .n_kv_heads = 16, .activation_key = "hidden_act"});
  // Whether its full layers are masked depends on the attention implementation in transformers.
  hf.require_unset({"use_bidirectional_attention"});
  read_rope(hf, c);
  return c;
}

// Gemma 2 (Gemma Team 2024): soft caps, four norms a block, every other layer windowed.
ModelConfig read_gemma2(HfConfig& hf) {
  ModelConfig c =
      read_gemma_config(hf, {.n_ctx = 8192, .n_kv_heads = 4, .activation_key = "hidden_activation"});
  read_gemma_caps(hf, c, {.scores = 50.0, .logits = 30.0});
  hf.set_windows(c, {"sliding_window", 4096},
                 hf.layers_of_type(c, [](std::int64_t l) { return l % 2 == 0; }));
  hf.json().ignore({"sliding_window_size"});  // the same as sliding_window
  // Whether its full layers are masked depends on the attention implementation in transformers.
  hf.require_unset({"use_bidirectional_attention"});
  read_rope(hf, c);
  return c;
}

// Gemma 3, its text model (Gemma Team 2025): norms of queries and keys, windowed layers with their own
// base.
ModelConfig read_gemma3_text(HfConfig& hf) {
  ModelConfig c =
      read_gemma_config(hf, {.n_ctx = 131072, .n_kv_heads = 4, .activation_key = "hidden_activation"});
  read_gemma_caps(hf, c, {});
  if (c.score_soft_cap > 0) {
    hf.note("attn_logit_softcapping has no effect: transformers does not read it for this family");
    c.score_soft_cap = 0.0;
  }
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  const std::int64_t pattern = hf.count_or("sliding_window_pattern", 6);
  hf.json().ignore({"_sliding_window_pattern"});
  hf.set_windows(c, {"sliding_window", 4096},
                 hf.layers_of_type(c, [&](std::int64_t l) { return (l + 1) % pattern != 0; }));
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

// VaultGemma (Google 2025): Gemma 2 without norms after its sublayers, trained with differential privacy.

ModelConfig read_vaultgemma(HfConfig& hf) {
  ModelConfig c =
      read_gemma_config(hf, {.n_ctx = 8192, .n_kv_heads = 4, .activation_key = "hidden_activation"});
  read_gemma_caps(hf, c, {.scores = 50.0, .logits = 30.0});
  c.norm_place = NormPlace::pre;
  hf.set_windows(c, {"sliding_window", 4096},
                 hf.layers_of_type(c, [](std::int64_t l) { return l % 2 == 0; }));
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kGemma = llama_family("gemma", read_gemma, llama_recipes);
extern const Family kGemma2 = llama_family("gemma2", read_gemma2, gemma_two_norm_recipes);
extern const Family kGemma3Text = llama_family("gemma3_text", read_gemma3_text, gemma_two_norm_recipes);
extern const Family kVaultgemma = llama_family("vaultgemma", read_vaultgemma, gemma_two_norm_recipes);

}  // namespace hooked::families::gemma
