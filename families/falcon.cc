// Falcon (Almazrouei et al. 2023): three generations of blocks. The first models (rw) are serial with ALiBi,
// 7b is parallel with one norm and one key/value head, the new decoder architecture has groups and may have
// two norms.
#include "families/shared/alibi.h"
#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"
#include "families/shared/rope_config.h"

namespace hooked::families::falcon {
namespace {

// The norms' names: ln_attn and ln_mlp if a parallel block has two.
std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  const bool two_parallel_norms = c.layout == BlockLayout::parallel_two_norms;
  Recipes r(c);
  r.embedding("word_embeddings.weight");
  r.each_block("h.{}.", [&](std::int64_t) {
    r.norm("ln1", two_parallel_norms ? "ln_attn" : "input_layernorm");
    r.fused_qkv("self_attention.query_key_value", FusedHeads::by_group(c));
    r.attention_out("self_attention.dense");
    if (c.layout != BlockLayout::parallel_one_norm) {
      r.norm("ln2", two_parallel_norms ? "ln_mlp" : "post_attention_layernorm");
    }
    r.mlp_in("mlp.dense_h_to_4h");
    r.mlp_out("mlp.dense_4h_to_h");
  });
  r.norm("ln_final", "ln_f");
  r.unembedding("lm_head");
  return std::move(r).take();
}

BlockLayout block_layout(HfConfig& hf, bool new_architecture) {
  const ConfigReader& json = hf.json();
  const bool parallel = json.boolean_or("parallel_attn", true);
  const std::int64_t norms = json.integer_or("num_ln_in_parallel_attn", new_architecture ? 2 : 1);
  if (norms != 1 && norms != 2) json.refuse("num_ln_in_parallel_attn", "is not supported; expected 1 or 2");
  if (!new_architecture) {
    if (parallel && norms == 2) {
      json.refuse("num_ln_in_parallel_attn", "needs new_decoder_architecture; expected 1");
    }
    return parallel ? BlockLayout::parallel_one_norm : BlockLayout::serial;
  }
  return norms == 2 ? BlockLayout::parallel_two_norms : BlockLayout::parallel_one_norm;
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  const bool new_architecture = json.boolean_or("new_decoder_architecture", false);
  const auto grouped_key = json.first_of({"num_kv_heads", "n_head_kv"});
  ModelConfig c = hf.sizes({.n_layers = json.first_of({"num_hidden_layers", "n_layer"}),
                            .d_model = json.first_of({"n_embed", "hidden_size"}),
                            .n_heads = json.first_of({"num_attention_heads", "n_head"}),
                            .n_kv_heads = new_architecture ? grouped_key : std::string_view(),
                            .d_head = {},
                            .d_mlp = "ffn_hidden_size",
                            .mlp_ratio = 4,
                            .n_ctx = "max_position_embeddings",
                            .n_ctx_fallback = 2048},
                           /*tied=*/true);
  const bool multi_query = json.boolean_or("multi_query", true);
  if (!new_architecture && multi_query) c.n_kv_heads = 1;
  c.layout = block_layout(hf, new_architecture);
  c.qkv_bias = c.attn_out_bias = c.mlp_bias = json.boolean_or("bias", false);
  c.eps = hf.positive_or("layer_norm_epsilon", 1e-5);
  c.activation = hf.activation("activation", "gelu");
  json.ignore({"num_kv_heads", "n_head_kv", "ffn_factor", "apply_residual_connection_post_layernorm"});
  if (json.boolean_or("alibi", false)) {
    c.positions =
        AlibiPositions{.slopes = appended_alibi_slopes(c.n_heads), .in_bfloat16 = true, .scaled = true};
    json.ignore({"rope_theta", "rope_scaling", "rope_parameters"});
  } else {
    read_rope(hf, c);
  }
  return c;
}

constexpr std::string_view kBuffers[] = {"*rotary*inv_freq"};

}  // namespace

extern const Family kFamily{.model_type = "falcon",
                            .read = read,
                            .recipes = recipes,
                            .prefix = "transformer.",
                            .unembedding = "lm_head.weight",
                            .buffers = kBuffers};

}  // namespace hooked::families::falcon
