// CTRL (Keskar et al. 2019): positions are sines and cosines, computed instead of stored.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sin.h>

#include <cmath>

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked::families::ctrl {
namespace {

// [n_ctx, d_model]: sines of the even dimensions' angles, then cosines of the odd ones'. In float32 except
// for float64 models, as transformers computes it.
at::Tensor sinusoids(const ModelConfig& c) {
  const at::ScalarType precision = c.dtype == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor dimensions = at::arange(c.d_model, precision).unsqueeze(0);
  const at::Tensor pairs = (dimensions / 2).floor() * 2;
  const at::Tensor rates = at::pow(10000, pairs / static_cast<double>(c.d_model)).reciprocal();
  const at::Tensor angles = at::arange(c.n_ctx, precision).unsqueeze(1) * rates;
  return at::cat({at::sin(angles.slice(1, 0, c.d_model, 2)), at::cos(angles.slice(1, 1, c.d_model, 2))}, 1);
}

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("w.weight");
  r.make("pos_embed.W_pos", {}, [c](const auto&) { return sinusoids(c); });
  r.each_block("h.{}.", [&](std::int64_t) {
    r.norm("ln1", "layernorm1");
    r.queries("multi_head_attention.Wq");
    r.keys("multi_head_attention.Wk");
    r.values("multi_head_attention.Wv");
    r.attention_out("multi_head_attention.dense");
    r.norm("ln2", "layernorm2");
    r.mlp_in("ffn.0");
    r.mlp_out("ffn.2");
  });
  r.norm("ln_final", "layernorm");
  r.unembedding("lm_head");
  return std::move(r).take();
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = hf.sizes({.n_layers = json.first_of({"n_layer", "num_hidden_layers"}),
                            .d_model = json.first_of({"n_embd", "hidden_size"}),
                            .n_heads = json.first_of({"n_head", "num_attention_heads"}),
                            .n_kv_heads = {},
                            .d_head = {},
                            .d_mlp = "dff",
                            .n_ctx = json.first_of({"n_positions", "max_position_embeddings"}),
                            .n_ctx_fallback = 256},
                           /*tied=*/true);
  c.mlp_bias = c.qkv_bias = c.attn_out_bias = c.unembedding->bias = true;
  c.eps = 1e-6;  // of the blocks' norms, whatever the file says
  if (hf.positive_or("layer_norm_epsilon", c.eps) != c.eps) {
    json.refuse("layer_norm_epsilon", "differs from the 1e-06 of the blocks' norms; expected 1e-06");
  }
  c.activation = Activation::relu;
  c.embedding_scale = std::sqrt(static_cast<double>(c.d_model));
  return c;
}

constexpr std::string_view kBuffers[] = {"pos_encoding"};

}  // namespace

extern const Family kCtrl = transformer_family("ctrl", read, recipes, kBuffers);

}  // namespace hooked::families::ctrl
