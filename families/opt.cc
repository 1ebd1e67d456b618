// OPT (Zhang et al. 2022): two unused rows before the positions; the 350m model has norms after the additions
// and embeds into fewer dimensions than the stream has.
#include <ATen/ops/matmul.h>

#include "families/shared/fairseq_layout.h"
#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked::families::opt {
namespace {

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

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
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

ModelConfig read(HfConfig& hf) {
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

}  // namespace

extern const Family kFamily{.model_type = "opt",
                            .read = read,
                            .recipes = recipes,
                            .prefix = "model.decoder.",
                            .unembedding = "lm_head.weight"};

}  // namespace hooked::families::opt
