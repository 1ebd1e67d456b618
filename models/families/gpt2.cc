// GPT-2 (Radford et al. 2019). Its Conv1D weights are stored [in, out].
#include "models/families/hf_config.h"
#include "models/families/recipes.h"

namespace hooked {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c, LinearLayout::in_out);
  r.embedding("wte.weight");
  r.positions("wpe.weight");
  r.each_block("h.{}.", [&](std::int64_t) {
    r.norm("ln1", "ln_1");
    r.fused_qkv("attn.c_attn", FusedHeads::side_by_side(c));
    r.attention_out("attn.c_proj");
    r.norm("ln2", "ln_2");
    r.mlp_in("mlp.c_fc");
    r.mlp_out("mlp.c_proj");
  });
  r.norm("ln_final", "ln_f");
  r.unembedding("lm_head");
  return std::move(r).take();
}

FamilyConfig read(std::string_view text, std::string_view where) {
  HfConfig hf(text, where);
  const ConfigReader& json = hf.json();
  ModelConfig c = hf.sizes({.n_layers = json.first_of({"n_layer", "num_hidden_layers"}),
                            .d_model = json.first_of({"n_embd", "hidden_size"}),
                            .n_heads = json.first_of({"n_head", "num_attention_heads"}),
                            .n_kv_heads = {},
                            .d_head = {},
                            .d_mlp = "n_inner",
                            .mlp_ratio = 4,
                            .n_ctx = json.first_of({"n_positions", "max_position_embeddings", "n_ctx"})},
                           /*tied=*/true);
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
  return hf.finish(std::move(c), recipes);
}

constexpr std::string_view kBuffers[] = {"h.*.attn.bias", "h.*.attn.masked_bias"};

}  // namespace

extern const Family kGpt2Family{.model_type = "gpt2",
                                .read = read,
                                .prefix = "transformer.",
                                .unembedding = "lm_head.weight",
                                .buffers = kBuffers};

}  // namespace hooked
