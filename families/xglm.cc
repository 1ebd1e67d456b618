// XGLM (Lin et al. 2022): positions are sines and cosines, computed instead of stored.
#include <ATen/core/Tensor.h>

#include <cmath>

#include "families/shared/fairseq_layout.h"
#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked::families::xglm {
namespace {

std::int64_t padding_row(const HfConfig& hf) { return hf.json().integer_or("pad_token_id", 1); }

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  Recipes r(c);
  r.embedding("embed_tokens.weight");
  r.make("pos_embed.W_pos", {}, [c, row = padding_row(hf)](const auto&) {
    return fairseq_sinusoids(c, kFairseqPositionOffset, row);
  });
  add_fairseq_blocks(r);
  r.norm("ln_final", "layer_norm");
  r.unembedding("lm_head");
  return std::move(r).take();
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = hf.sizes({.n_layers = json.first_of({"num_layers", "num_hidden_layers"}),
                            .d_model = json.first_of({"d_model", "hidden_size"}),
                            .n_heads = json.first_of({"attention_heads", "num_attention_heads"}),
                            .n_kv_heads = {},
                            .d_head = {},
                            .d_mlp = "ffn_dim",
                            .n_ctx_fallback = 2048},
                           /*tied=*/true);
  if (c.d_model < 4) json.refuse("d_model", "is too small for sinusoidal positions; expected at least 4");
  c.mlp_bias = c.qkv_bias = c.attn_out_bias = true;
  c.eps = 1e-5;
  c.activation = hf.activation("activation_function", "gelu");
  if (json.boolean_or("scale_embedding", true)) c.embedding_scale = std::sqrt(static_cast<double>(c.d_model));
  hf.require_unset({"add_cross_attention"});
  padding_row(hf);  // refused here if it is not a number
  return c;
}

constexpr std::string_view kBuffers[] = {"embed_positions.weights"};

}  // namespace

extern const Family kFamily{.model_type = "xglm",
                            .read = read,
                            .recipes = recipes,
                            .prefix = "model.",
                            .unembedding = "lm_head.weight",
                            .buffers = kBuffers};

}  // namespace hooked::families::xglm
