// Cohere's models.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::cohere {
namespace {

// Command R: attention and MLP read one LayerNorm without bias, rotary rotates adjacent pairs, logits are
// scaled. `theta` is the rotary base of configs that name none. Without windows.
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

// Command R (Cohere 2024).
ModelConfig read_cohere(HfConfig& hf) {
  ModelConfig c = read_cohere_config(hf, 5e5);
  if (hf.json().boolean_or("use_qk_norm", false)) {
    c.qk_norm = QkNorm{.span = QkNorm::each_head, .kind = NormKind::layer_norm};
  }
  return c;
}

// Command R7B and Command A (Cohere 2025): Command R with windowed layers; full layers have no positions.
ModelConfig read_cohere2(HfConfig& hf) {
  ModelConfig c = read_cohere_config(hf, 1e4);
  const ConfigReader& json = hf.json();
  const std::int64_t pattern = hf.count_or("sliding_window_pattern", 4);
  json.ignore(
      {"_sliding_window_pattern", "rotary_pct", "order_of_interleaved_layers", "position_embedding_type"});
  LayerFlags windowed = hf.layers_of_type(c, [&](std::int64_t l) { return (l + 1) % pattern != 0; });
  hf.set_windows(c, {"sliding_window", 4096}, windowed);
  windowed.flip();
  c.rotary()->unrotated_layers = none_if_all_false(std::move(windowed));
  return c;
}

}  // namespace

extern const Family kCohere = llama_family("cohere", read_cohere, llama_recipes);
extern const Family kCohere2 = llama_family("cohere2", read_cohere2, llama_recipes);

}  // namespace hooked::families::cohere
