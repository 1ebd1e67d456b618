// XGLM (Lin et al. 2022): positions are sines and cosines, computed and not stored.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "families/shared/fairseq_layout.h"
#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked::families::xglm {
namespace {

// [n_ctx, d_model]: sines, then cosines, of frequencies from 1 down to 1/10000. The row that stands for
// padding in the whole table is zero. In float32 but for float64 models, as transformers computes it.
at::Tensor sinusoids(const ModelConfig& c, std::int64_t padding_row) {
  const at::ScalarType precision = c.dtype == at::kDouble ? at::kDouble : at::kFloat;
  const std::int64_t half = c.d_model / 2;
  const double step = -std::log(10000.0) / static_cast<double>(half - 1);
  const at::Tensor frequencies = at::exp(at::arange(half, precision) * step);
  const at::Tensor places = at::arange(kFairseqPositionOffset, c.n_ctx + kFairseqPositionOffset, precision);
  const at::Tensor angles = places.unsqueeze(1) * frequencies;
  std::vector<at::Tensor> columns{at::sin(angles), at::cos(angles)};
  if (c.d_model % 2 == 1) columns.push_back(at::zeros({c.n_ctx, 1}, precision));
  const at::Tensor table = at::cat(columns, 1);
  const std::int64_t row = padding_row - kFairseqPositionOffset;
  if (row >= 0 && row < c.n_ctx) table.select(0, row).zero_();
  return table;
}

std::int64_t padding_row(const HfConfig& hf) { return hf.json().integer_or("pad_token_id", 1); }

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  Recipes r(c);
  r.embedding("embed_tokens.weight");
  r.make("pos_embed.W_pos", {}, [c, row = padding_row(hf)](const auto&) { return sinusoids(c, row); });
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
