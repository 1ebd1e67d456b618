// Command R (Cohere 2024).
#include "models/families/cohere_layout.h"
#include "models/families/rope_config.h"

namespace hooked {
namespace {

FamilyConfig read(std::string_view text, std::string_view where) {
  const HfConfig hf(text, where);
  ModelConfig c = read_cohere_config(hf, 5e5);
  if (hf.json().boolean_or("use_qk_norm", false)) {
    c.qk_norm = QkNorm::each_head;
    c.qk_norm_kind = NormKind::layer_norm;
  }
  return hf.finish(std::move(c), llama_recipes);
}

}  // namespace

ModelConfig read_cohere_config(const HfConfig& hf, double theta) {
  ModelConfig c = read_llama_config(
      hf,
      {.n_ctx = 8192, .tied = true, .norm = NormKind::layer_norm, .eps_key = "layer_norm_eps", .eps = 1e-5});
  c.norm_bias = false;
  c.layout = BlockLayout::parallel_one_norm;
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  c.logit_scale = hf.positive_or("logit_scale", 0.0625);
  read_rope(hf, c, {.theta = theta, .adjacent_pairs = true});
  return c;
}

extern const Family kCohereFamily = llama_family("cohere", read);

}  // namespace hooked
