// MPT (MosaicML 2023): ALiBi, no biases at all. Other features that its config names are not read by
// transformers either: notes say so.
#include <bit>

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked::families::mpt {
namespace {

// ALiBi slopes [head]: from the next power of two, first every second one, then the others.
std::vector<double> halved_alibi_slopes(std::int64_t n_heads) {
  const auto above = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n_heads)));
  const std::vector<double> all = geometric_alibi_slopes(above);
  if (above == n_heads) return all;
  std::vector<double> slopes;
  for (const std::size_t first : {1, 0}) {
    for (std::size_t i = first; i < all.size(); i += 2) slopes.push_back(all[i]);
  }
  slopes.resize(static_cast<std::size_t>(n_heads));
  return slopes;
}

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("wte.weight");
  r.each_block("blocks.{}.", [&](std::int64_t) {
    r.norm("ln1", "norm_1");
    r.fused_qkv("attn.Wqkv", FusedHeads::side_by_side(c));
    r.attention_out("attn.out_proj");
    r.norm("ln2", "norm_2");
    r.mlp_in("ffn.up_proj");
    r.mlp_out("ffn.down_proj");
  });
  r.norm("ln_final", "norm_f");
  r.unembedding("lm_head");
  return std::move(r).take();
}

void read_attention(const ConfigReader& attn, ModelConfig& c) {
  if (attn.has("softmax_scale")) {
    const double scale = attn.number("softmax_scale");
    if (!(scale > 0)) attn.refuse("softmax_scale", "is not allowed; expected a number above 0, or null");
    c.attn_scale = 1.0 / scale;
  }
  c.qkv_clip = attn.is_unset("clip_qkv") ? 0.0 : attn.number("clip_qkv");
  if (attn.text_or("attn_type", "multihead_attention") != "multihead_attention") {
    attn.refuse("attn_type", "is not supported; expected multihead_attention");
  }
  attn.ignore({"attn_impl", "attn_pdrop", "attn_dropout", "model_type"});
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = hf.sizes({.n_layers = json.first_of({"n_layers", "num_hidden_layers"}),
                            .d_model = json.first_of({"d_model", "hidden_size"}),
                            .n_heads = json.first_of({"n_heads", "num_attention_heads"}),
                            .n_kv_heads = {},
                            .d_head = {},
                            .d_mlp = {},
                            .mlp_ratio = 4,
                            .n_ctx = "max_seq_len",
                            .n_ctx_fallback = 2048},
                           /*tied=*/true);
  c.norm_bias = false;
  c.eps = hf.positive_or("layer_norm_epsilon", 1e-5);
  c.activation = Activation::gelu;
  c.positions = AlibiPositions{.slopes = halved_alibi_slopes(c.n_heads)};
  const auto not_read = [&](const ConfigReader& group, std::string_view key, bool usual) {
    if (group.has(key) && group.boolean(key) != usual) {
      hf.note(std::string(key) + " has no effect: transformers does not read it for this family");
    }
  };
  if (const auto attn = json.object_if("attn_config")) {
    read_attention(*attn, c);
    hf.comes_from("attn_scale", attn->where("softmax_scale"));
    hf.comes_from("qkv_clip", attn->where("clip_qkv"));
    for (const auto& [key, usual] : {std::pair{"alibi", true}, std::pair{"prefix_lm", false},
                                     std::pair{"qk_ln", false}, std::pair{"attn_uses_sequence_id", false}}) {
      not_read(*attn, key, usual);
    }
    if (attn->number_or("alibi_bias_max", 8.0) != 8.0) {
      hf.note("alibi_bias_max has no effect: transformers takes 8 for this family");
    }
    for (const std::string& key : attn->keys()) attn->ignore({key});
  }
  if (json.integer_or("expansion_ratio", 4) != 4) {
    hf.note("expansion_ratio has no effect: transformers takes 4 for this family");
  }
  not_read(json, "no_bias", true);
  not_read(json, "learned_pos_emb", true);
  if (!json.is_unset("logit_scale")) {
    hf.note("logit_scale has no effect: transformers does not read it for this family");
  }
  json.ignore({"init_device", "embedding_fraction", "norm_type", "verbose", "init_config", "ffn_config"});
  return c;
}

}  // namespace

extern const Family kMpt = transformer_family("mpt", read, recipes);

}  // namespace hooked::families::mpt
