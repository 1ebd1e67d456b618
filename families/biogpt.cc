// BioGPT (Luo et al. 2022). Its `layer_norm_eps` has no effect: transformers uses 1e-5.
#include <cmath>

#include "families/shared/fairseq_layout.h"
#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked::families::biogpt {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("embed_tokens.weight");
  r.positions("embed_positions.weight", kFairseqPositionOffset);
  add_fairseq_blocks(r);
  r.norm("ln_final", "layer_norm");
  r.unembedding("output_projection");
  return std::move(r).take();
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = hf.sizes({.n_kv_heads = {}, .d_head = {}, .n_ctx_fallback = 1024}, /*tied=*/true);
  c.mlp_bias = c.qkv_bias = c.attn_out_bias = true;
  c.eps = 1e-5;
  if (json.number_or("layer_norm_eps", c.eps) != c.eps) {
    hf.note("layer_norm_eps has no effect: transformers takes 1e-5 for this family");
  }
  c.activation = hf.activation("hidden_act", "gelu");
  if (json.boolean_or("scale_embedding", true)) c.embedding_scale = std::sqrt(static_cast<double>(c.d_model));
  return c;
}

}  // namespace

extern const Family kFamily{.model_type = "biogpt",
                            .read = read,
                            .recipes = recipes,
                            .prefix = "biogpt.",
                            .unembedding = "output_projection.weight"};

}  // namespace hooked::families::biogpt
