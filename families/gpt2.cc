// GPT-2 (Radford et al. 2019). Its Conv1D weights are stored [in, out].
#include "families/shared/gpt2_layout.h"

namespace hooked::families::gpt2 {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c, LinearLayout::in_out);
  add_gpt2_parts(r, [&] { add_gpt2_attention(r, FusedHeads::side_by_side(c)); });
  return std::move(r).take();
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  SizeKeys keys = gpt2_size_keys(json, 1024);
  keys.n_ctx = json.first_of({keys.n_ctx, "n_ctx"});  // of the oldest configs
  ModelConfig c = hf.sizes(keys, /*tied=*/true);
  json.ignore({"n_ctx"});
  c.mlp_bias = c.qkv_bias = c.attn_out_bias = true;
  c.eps = hf.positive_or("layer_norm_epsilon", 1e-5);
  c.activation = hf.activation("activation_function", "gelu_new");
  if (!json.boolean_or("scale_attn_weights", true)) c.attn_scale = 1.0;
  c.scale_by_inverse_layer = json.boolean_or("scale_attn_by_inverse_layer_idx", false);
  hf.require_unset({"add_cross_attention"});
  if (json.boolean_or("reorder_and_upcast_attn", false)) {
    hf.note("reorder_and_upcast_attn changes rounding only and is not imitated");
  }
  return c;
}

}  // namespace

extern const Family kFamily{.model_type = "gpt2",
                            .read = read,
                            .recipes = recipes,
                            .prefix = "transformer.",
                            .unembedding = "lm_head.weight",
                            .conv1d = true,
                            .buffers = kGpt2Buffers};

}  // namespace hooked::families::gpt2
