// HyperCLOVA X SEED Think (NAVER Cloud 2025): Granite with a norm after each sublayer; logits are multiplied,
// while Granite divides them.
#include <cmath>

#include "families/shared/granite_layout.h"
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::hyperclovax {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  const double residual = granite_residual_scale(hf);
  if (c.norm_place == NormPlace::pre) return scaled_llama_recipes(c, residual);
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_llama_attention(r, c);
    r.scaled_norm("ln1_post", "post_norm1", residual);
    r.norm("ln2", "post_attention_layernorm");
    add_llama_mlp(r, c);
    r.scaled_norm("ln2_post", "post_norm2", residual);
  });
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf);
  read_llama_biases(hf, c);
  read_granite_multipliers(hf, c);
  if (!json.has("attention_multiplier")) {  // as transformers would write it
    c.attn_scale = 1.0 / std::pow(static_cast<double>(c.d_head), -0.5);
  }
  c.unembedding->scale = hf.positive_or("logits_scaling", 1.0);
  if (json.boolean_or("use_post_norm", true)) c.norm_place = NormPlace::both;
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("hyperclovax", read, recipes);

}  // namespace hooked::families::hyperclovax
