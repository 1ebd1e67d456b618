// GPT (Radford et al. 2018): post-norm sublayers, learned positions.
#include "families/shared/gpt2_layout.h"

namespace hooked::families::openai_gpt {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c, LinearLayout::in_out);
  r.embedding("tokens_embed.weight");
  r.positions("positions_embed.weight");
  r.each_block("h.{}.", [&](std::int64_t) {
    add_gpt2_attention(r, FusedHeads::side_by_side(c));
    r.norm("ln1", "ln_1");
    r.mlp_in("mlp.c_fc");
    r.mlp_out("mlp.c_proj");
    r.norm("ln2", "ln_2");
  });
  r.unembedding("lm_head");
  return std::move(r).take();
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  SizeKeys keys = gpt2_size_keys(json, 512);
  keys.d_mlp = {};  // four times d_model, whatever the file says
  ModelConfig c = hf.sizes(keys, /*tied=*/true);
  json.ignore({"n_ctx"});
  c.mlp_bias = c.qkv_bias = c.attn_out_bias = true;
  c.norm_place = NormPlace::post;
  c.final_norm = NormKind::none;
  c.eps = hf.positive_or("layer_norm_epsilon", 1e-5);
  // It has fewer words for activations than other families, and its gelu is the one with tanh.
  const std::string activation = json.text_or("afn", "gelu");
  if (activation == "gelu") {
    c.activation = Activation::gelu_tanh;
  } else if (activation == "relu" || activation == "silu" || activation == "swish") {
    c.activation = hf.activation("afn", "gelu");
  } else {
    json.refuse("afn", "is not supported; expected gelu, relu, silu or swish");
  }
  return c;
}

}  // namespace

extern const Family kFamily{.model_type = "openai-gpt",
                            .read = read,
                            .recipes = recipes,
                            .prefix = "transformer.",
                            .unembedding = "lm_head.weight",
                            .conv1d = true,
                            .buffers = kGpt2Buffers};

}  // namespace hooked::families::openai_gpt
