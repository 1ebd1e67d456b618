// Decoders with the names of Megatron's GPT: `query_key_value`, `dense_h_to_4h`.
#include <bit>

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"
#include "families/shared/rope_config.h"

namespace hooked::families::megatron {
namespace {

// ALiBi slopes (Press et al. 2022) [head]: a head count that is not a power of two takes the slopes of the
// power below, then every second slope of the power above.
std::vector<double> appended_alibi_slopes(std::int64_t n_heads) {
  const auto below = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n_heads)));
  std::vector<double> slopes = geometric_alibi_slopes(below);
  const std::vector<double> finer = geometric_alibi_slopes(2 * below);
  for (std::size_t i = 0; static_cast<std::int64_t>(slopes.size()) < n_heads; i += 2)
    slopes.push_back(finer[i]);
  return slopes;
}

// BLOOM (Le Scao et al. 2022): a norm after the embedding, ALiBi.

std::vector<TensorRecipe> bloom_recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("word_embeddings.weight");
  r.norm("embed.ln", "word_embeddings_layernorm");
  r.each_block("h.{}.", [&](std::int64_t) {
    r.norm("ln1", "input_layernorm");
    r.fused_qkv("self_attention.query_key_value", FusedHeads::by_group(c));
    r.attention_out("self_attention.dense");
    r.norm("ln2", "post_attention_layernorm");
    r.mlp_in("mlp.dense_h_to_4h");
    r.mlp_out("mlp.dense_4h_to_h");
  });
  r.norm("ln_final", "ln_f");
  r.unembedding("lm_head");
  return std::move(r).take();
}

ModelConfig read_bloom(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = hf.sizes({.n_layers = json.first_of({"n_layer", "num_hidden_layers"}),
                            .d_model = json.first_of({"n_embed", "hidden_size"}),
                            .n_heads = json.first_of({"n_head", "num_attention_heads"}),
                            .n_kv_heads = {},
                            .d_head = {},
                            .d_mlp = {},
                            .mlp_ratio = 4,
                            .n_ctx = {},
                            .n_ctx_fallback = kUnlimitedContext},
                           /*tied=*/true);
  json.ignore({"n_layer", "num_hidden_layers", "n_embed", "hidden_size", "n_head", "num_attention_heads",
               "seq_length", "attention_softmax_in_fp32", "masked_softmax_fusion", "bias_dropout_fusion",
               "slow_but_exact", "offset_alibi"});
  c.mlp_bias = c.qkv_bias = c.attn_out_bias = true;
  c.post_embedding_norm = true;
  c.eps = hf.positive_or("layer_norm_epsilon", 1e-5);
  c.activation = Activation::gelu_bloom;
  c.positions = AlibiPositions{.slopes = appended_alibi_slopes(c.n_heads)};
  c.default_prepend_bos = false;
  if (json.boolean_or("apply_residual_connection_post_layernorm", false)) c.norm_place = NormPlace::stream;
  return c;
}

// Falcon (Almazrouei et al. 2023): three generations of blocks. The first models (rw) are serial with ALiBi,
// 7b is parallel with one norm and one key/value head, the new decoder architecture has groups and may have
// two norms.

// The norms' names: ln_attn and ln_mlp if a parallel block has two.
std::vector<TensorRecipe> falcon_recipes(const ModelConfig& c) {
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

ModelConfig read_falcon(HfConfig& hf) {
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

constexpr std::string_view kFalconBuffers[] = {"*rotary*inv_freq"};

// GPT-NeoX and Pythia (Black et al. 2022; Biderman et al. 2023): attention and MLP in parallel, each with a
// norm.

std::vector<TensorRecipe> gpt_neox_recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("embed_in.weight");
  r.each_block("layers.{}.", [&](std::int64_t) {
    r.norm("ln1", "input_layernorm");
    r.fused_qkv("attention.query_key_value", FusedHeads::by_group(c));
    r.attention_out("attention.dense");
    r.norm("ln2", "post_attention_layernorm");
    r.mlp_in("mlp.dense_h_to_4h");
    r.mlp_out("mlp.dense_4h_to_h");
  });
  r.norm("ln_final", "final_layer_norm");
  r.unembedding("embed_out", "lm_head");
  return std::move(r).take();
}

ModelConfig read_gpt_neox(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = hf.sizes({.n_kv_heads = {}, .d_head = {}, .n_ctx_fallback = 2048}, /*tied=*/false);
  c.layout =
      json.boolean_or("use_parallel_residual", true) ? BlockLayout::parallel_two_norms : BlockLayout::serial;
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", true);
  c.mlp_bias = true;
  c.eps = hf.positive_or("layer_norm_eps", 1e-5);
  c.activation = hf.activation("hidden_act", "gelu");
  c.default_prepend_bos = false;
  read_rope(hf, c, {.partial = 0.25, .theta_key = "rotary_emb_base", .partial_key = "rotary_pct"});
  json.ignore({"rope_theta", "partial_rotary_factor"});  // written in addition to the pair that counts
  return c;
}

constexpr std::string_view kGptNeoxBuffers[] = {"layers.*.attention.bias", "layers.*.attention.masked_bias",
                                                "*rotary_emb.inv_freq"};

}  // namespace

extern const Family kBloom = transformer_family("bloom", read_bloom, bloom_recipes);
extern const Family kFalcon = transformer_family("falcon", read_falcon, falcon_recipes, kFalconBuffers);

extern const Family kGptNeox{.model_type = "gpt_neox",
                             .read = read_gpt_neox,
                             .recipes = gpt_neox_recipes,
                             .prefix = "gpt_neox.",
                             .unembedding = "embed_out.weight",
                             .buffers = kGptNeoxBuffers};

}  // namespace hooked::families::megatron
