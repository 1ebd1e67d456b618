// GPTBigCode, SantaCoder and StarCoder (Li et al. 2023): GPT-2 with linear layers and, usually, one key/value
// head.
#include "families/shared/gpt2_layout.h"

namespace hooked::families::gpt_bigcode {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  add_gpt2_parts(r, [&] { add_gpt2_attention(r, FusedHeads::by_group(c)); });
  return std::move(r).take();
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = hf.sizes(gpt2_size_keys(json, 1024), /*tied=*/true);
  if (json.boolean_or("multi_query", true)) c.n_kv_heads = 1;
  c.mlp_bias = c.qkv_bias = c.attn_out_bias = true;
  c.eps = hf.positive_or("layer_norm_epsilon", 1e-5);
  c.activation = hf.activation("activation_function", "gelu_pytorch_tanh");
  if (!json.boolean_or("scale_attn_weights", true)) c.attn_scale = 1.0;
  hf.require_unset({"add_cross_attention"});
  json.ignore(
      {"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "num_key_value_heads", "n_ctx"});
  return c;
}

}  // namespace

extern const Family kFamily{.model_type = "gpt_bigcode",
                            .read = read,
                            .recipes = recipes,
                            .prefix = "transformer.",
                            .unembedding = "lm_head.weight",
                            .buffers = kGpt2Buffers};

}  // namespace hooked::families::gpt_bigcode
