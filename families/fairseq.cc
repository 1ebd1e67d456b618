// Decoders whose blocks come from fairseq.
#include <ATen/core/Tensor.h>
#include <ATen/ops/matmul.h>

#include <cmath>

#include "families/shared/fairseq_layout.h"
#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked::families::fairseq {
namespace {

// Reads a norm of a block: our name for it, theirs.
using AddNorm = std::function<void(std::string_view ours, std::string_view theirs)>;

// The blocks: `self_attn.{q,k,v,out}_proj`, `fc1`, `fc2` and two norms, which `add_norm` reads if they are
// not plain ones.
void add_fairseq_blocks(Recipes& r, const AddNorm& add_norm = nullptr) {
  const auto norm = [&](std::string_view ours, std::string_view theirs) {
    add_norm ? add_norm(ours, theirs) : r.norm(ours, theirs);
  };
  r.each_block("layers.{}.", [&](std::int64_t) {
    norm("ln1", "self_attn_layer_norm");
    r.queries("self_attn.q_proj");
    r.keys("self_attn.k_proj");
    r.values("self_attn.v_proj");
    r.attention_out("self_attn.out_proj");
    norm("ln2", "final_layer_norm");
    r.mlp_in("fc1");
    r.mlp_out("fc2");
  });
}

// BioGPT (Luo et al. 2022). Its `layer_norm_eps` has no effect: transformers uses 1e-5.

std::vector<TensorRecipe> biogpt_recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("embed_tokens.weight");
  r.positions("embed_positions.weight", kFairseqPositionOffset);
  add_fairseq_blocks(r);
  r.norm("ln_final", "layer_norm");
  r.unembedding("output_projection");
  return std::move(r).take();
}

ModelConfig read_biogpt(HfConfig& hf) {
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

// OPT (Zhang et al. 2022): two unused rows before the positions; the 350m model has norms after the additions
// and embeds into fewer dimensions than the stream has.

struct Shape {
  bool projected;  ///< the embedding's width differs from the stream's
  bool affine;     ///< norms have weights and biases
};

Shape shape_of(const ModelConfig& c, const HfConfig& hf) {
  const ConfigReader& json = hf.json();
  return {.projected = json.has("word_embed_proj_dim") && hf.count("word_embed_proj_dim") != c.d_model,
          .affine = json.boolean_or("layer_norm_elementwise_affine", true)};
}

// Products with the projections are taken in the wider of their precision and the model's.
at::Tensor product(const at::Tensor& a, const at::Tensor& b, at::ScalarType dtype) {
  const at::ScalarType wide = c10::promoteTypes(a.scalar_type(), dtype);
  return at::matmul(a.to(wide), b.to(wide));
}

void add_embeddings(Recipes& r, const ModelConfig& c, const Shape& shape) {
  if (!shape.projected) {
    r.embedding("embed_tokens.weight");
    r.unembedding("lm_head");
    return;
  }
  // Projecting the embedding once gives the same rows as projecting each token, and likewise after the
  // stream.
  r.make("embed.W_E", {"embed_tokens.weight", "project_in.weight"}, [dtype = c.dtype](const auto& theirs) {
     return product(theirs[0], theirs[1].t(), dtype);
   }).alias = "lm_head.weight";
  r.make("unembed.W_U", {"project_out.weight", "lm_head.weight"}, [dtype = c.dtype](const auto& theirs) {
     return product(theirs[0].t(), theirs[1].t(), dtype);
   }).alias = "embed_tokens.weight";  // tied models store one matrix
}

std::vector<TensorRecipe> opt_recipes(const ModelConfig& c, const HfConfig& hf) {
  const Shape shape = shape_of(c, hf);
  Recipes r(c);
  const auto norm = [&](std::string_view ours, std::string_view theirs) {
    shape.affine ? r.norm(ours, theirs) : r.plain_norm(ours);
  };
  add_embeddings(r, c, shape);
  r.positions("embed_positions.weight", kFairseqPositionOffset);
  add_fairseq_blocks(r, norm);
  if (c.final_norm != NormKind::none) norm("ln_final", "final_layer_norm");
  return std::move(r).take();
}

ModelConfig read_opt(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c =
      hf.sizes({.n_kv_heads = {}, .d_head = {}, .d_mlp = "ffn_dim", .n_ctx_fallback = 2048}, /*tied=*/true);
  c.mlp_bias = c.qkv_bias = c.attn_out_bias = json.boolean_or("enable_bias", true);
  const bool before = json.boolean_or("do_layer_norm_before", true);
  const bool no_final = json.boolean_or("_remove_final_layer_norm", false);
  c.norm_place = before ? NormPlace::pre : NormPlace::post;
  c.final_norm = before && !no_final ? NormKind::layer_norm : NormKind::none;
  c.eps = 1e-5;
  c.activation = hf.activation("activation_function", "relu");
  const Shape shape = shape_of(c, hf);
  c.norm_bias = shape.affine;
  if (shape.projected) c.unembedding->tied = false;  // two projections of one matrix
  return c;
}

// XGLM (Lin et al. 2022): positions are sines and cosines, computed instead of stored.

std::int64_t padding_row(const HfConfig& hf) { return hf.json().integer_or("pad_token_id", 1); }

std::vector<TensorRecipe> xglm_recipes(const ModelConfig& c, const HfConfig& hf) {
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

ModelConfig read_xglm(HfConfig& hf) {
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

constexpr std::string_view kXglmBuffers[] = {"embed_positions.weights"};

}  // namespace

extern const Family kBiogpt{.model_type = "biogpt",
                            .read = read_biogpt,
                            .recipes = biogpt_recipes,
                            .prefix = "biogpt.",
                            .unembedding = "output_projection.weight"};

extern const Family kOpt{.model_type = "opt",
                         .read = read_opt,
                         .recipes = opt_recipes,
                         .prefix = "model.decoder.",
                         .unembedding = "lm_head.weight"};

extern const Family kXglm{.model_type = "xglm",
                          .read = read_xglm,
                          .recipes = xglm_recipes,
                          .prefix = "model.",
                          .unembedding = "lm_head.weight",
                          .buffers = kXglmBuffers};

}  // namespace hooked::families::fairseq
