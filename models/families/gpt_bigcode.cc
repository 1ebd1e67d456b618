// GPTBigCode, SantaCoder and StarCoder (Li et al. 2023): GPT-2 with linear layers and, usually, one key/value
// head.
#include "models/families/hf_config.h"
#include "models/families/recipes.h"

namespace hooked {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("wte.weight");
  r.positions("wpe.weight");
  r.each_block("h.{}.", [&](std::int64_t) {
    r.norm("ln1", "ln_1");
    r.fused_qkv("attn.c_attn", FusedHeads::by_group(c));
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
  const HfConfig hf(text, where);
  const ConfigReader& json = hf.json();
  ModelConfig c = hf.sizes({.n_layers = json.first_of({"n_layer", "num_hidden_layers"}),
                            .d_model = json.first_of({"n_embd", "hidden_size"}),
                            .n_heads = json.first_of({"n_head", "num_attention_heads"}),
                            .n_kv_heads = {},
                            .d_head = {},
                            .d_mlp = "n_inner",
                            .mlp_ratio = 4,
                            .n_ctx = json.first_of({"n_positions", "max_position_embeddings"})},
                           /*tied=*/true);
  if (json.boolean_or("multi_query", true)) c.n_kv_heads = 1;
  c.mlp_bias = c.qkv_bias = c.attn_out_bias = true;
  c.eps = hf.positive_or("layer_norm_epsilon", 1e-5);
  c.activation = hf.activation("activation_function", "gelu_pytorch_tanh");
  if (!json.boolean_or("scale_attn_weights", true)) c.attn_scale = 1.0;
  hf.require_unset({"add_cross_attention"});
  json.ignore(
      {"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "num_key_value_heads", "n_ctx"});
  return hf.finish(std::move(c), recipes);
}

constexpr std::string_view kBuffers[] = {"h.*.attn.bias", "h.*.attn.masked_bias"};

}  // namespace

extern const Family kGptBigcodeFamily{.model_type = "gpt_bigcode",
                                      .read = read,
                                      .prefix = "transformer.",
                                      .unembedding = "lm_head.weight",
                                      .buffers = kBuffers};

}  // namespace hooked
