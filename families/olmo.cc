// OLMo (Ai2).
#include <string>
#include <utility>
#include <vector>

#include "families/shared/delta_net_layout.h"
#include "families/shared/expert_config.h"
#include "families/shared/llama_layout.h"
#include "families/shared/olmo2_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::olmo {
namespace {

// FlexOlmo (Shi et al. 2025): OLMo 2 with OLMoE's mixtures.
ModelConfig read_flex_olmo(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 4096});
  c.norm_place = NormPlace::output;
  c.qk_norm = QkNorm{.span = QkNorm::whole_projection};
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  read_experts(hf, c, {.n_experts_fallback = 7, .per_token_fallback = 5});
  c.experts->renormalised = json.boolean_or("norm_topk_prob", false);
  read_rope(hf, c, {.theta = 5e5});
  return c;
}

// OLMo (Groeneveld et al. 2024): LayerNorms without weights; clamped queries, keys and values.

std::vector<TensorRecipe> olmo_recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("embed_tokens.weight");
  r.each_block("layers.{}.", [&](std::int64_t) {
    r.plain_norm("ln1");
    add_llama_attention(r, c);
    r.plain_norm("ln2");
    add_llama_mlp(r, c);
  });
  r.plain_norm("ln_final");
  r.unembedding("lm_head");
  return std::move(r).take();
}

ModelConfig read_olmo(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.norm = NormKind::layer_norm, .eps_key = "-", .eps = 1e-5});
  c.norm_bias = false;
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  if (hf.json().has("clip_qkv")) c.qkv_clip = hf.positive_or("clip_qkv", 0.0);
  hf.json().ignore({"layer_norm_eps", "rms_norm_eps"});
  read_rope(hf, c);
  return c;
}

// OLMo 2 (OLMo Team 2024): outputs of sublayers are normed; one norm over all heads of queries and of keys.
ModelConfig read_olmo2(HfConfig& hf) {
  ModelConfig c = read_olmo2_config(hf, QkNorm::whole_projection);
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  read_rope(hf, c);
  return c;
}

// OLMo 3 (OLMo Team 2025): OLMo 2 with three windowed layers of four; scaling on the full ones only.
ModelConfig read_olmo3(HfConfig& hf) {
  ModelConfig c = read_olmo2_config(hf, QkNorm::whole_projection);
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  hf.set_windows(c, {"sliding_window", 4096},
                 hf.layers_of_type(c, [](std::int64_t l) { return (l + 1) % 4 != 0; }));
  read_layered_rope(hf, c, {.theta = 5e5, .windowed_theta = 5e5});
  return c;
}

// OLMo Hybrid (OLMo Team 2026): OLMo 3's attention in one layer of four, with norms of the sublayers'
// outputs; gated delta nets in the others, with norms of their inputs.

// The last layer always has attention.
LayerFlags usual_layers(HfConfig& hf, const ModelConfig& c) {
  hf.comes_from("delta_net.layers", hf.json().where("num_hidden_layers"));
  LayerFlags recurs = flag_layers(c, [](std::int64_t l) { return l % 4 != 3; });
  if (c.n_layers < 4) recurs.back() = false;
  return recurs;
}

// A theta of null means no positions at all, whatever other keys say.
bool lacks_positions(const ConfigReader& json) {
  const ConfigReader group = rope_group(json);
  const bool inside = group.has("rope_theta") || group.is_null("rope_theta");
  if (!(inside ? group.is_null("rope_theta") : json.is_null("rope_theta"))) return false;
  for (const std::string& key : group.keys()) group.ignore({key});
  json.ignore({"rope_scaling", "rope_parameters"});
  return true;
}

ModelConfig read_olmo_hybrid(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 65536});
  c.norm_place = NormPlace::output;
  c.qk_norm = QkNorm{.span = QkNorm::whole_projection};
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  LayerFlags layers = none_if_all_false(linear_layers(hf, c, [&] { return usual_layers(hf, c); }));
  if (layers.empty()) {
    json.refuse(json.first_of({"layer_types", "num_hidden_layers"}),
                "leaves no layer with linear attention; expected at least one");
  }
  c.pre_norm_layers = layers;
  const std::int64_t key_heads = hf.count_or("linear_num_key_heads", c.n_heads);
  const std::int64_t d_key = hf.count_or("linear_key_head_dim", c.d_model * 3 / (4 * key_heads));
  c.delta_net =
      read_delta_nets(hf, c, std::move(layers),
                      {.n_key_heads = key_heads, .n_heads = c.n_heads, .d_key = d_key, .d_value = 2 * d_key});
  c.delta_net->doubled_beta = json.boolean_or("linear_allow_neg_eigval", true);
  c.delta_net->norm_eps = 1e-5;
  json.ignore({"linear_a_log_min", "linear_a_log_max", "linear_dt_min", "linear_dt_max",
               "linear_dt_init_floor"});  // of untrained weights
  if (lacks_positions(json)) {
    c.positions = NoPositions{};
  } else {
    read_rope(hf, c);
  }
  return c;
}

// A norm of width d_model under its name in published files or its name in transformers. transformers gives
// two of them one name and writes both under it.
void add_norm(Recipes& r, const char* ours, const std::string& theirs, const std::string& or_theirs) {
  TensorRecipe& weight = r.make(ours, {theirs + ".weight"}, nullptr);
  r.or_named(weight, or_theirs + ".weight");
}

std::vector<TensorRecipe> olmo_hybrid_recipes(const ModelConfig& c) {
  return llama_stack(c, [&](Recipes& r) {
    if (c.recurs(r.layer())) {
      add_norm(r, "ln1.w", "attention_layer_norm", "input_layernorm");
      add_delta_net(r, c, DeltaNetFiles::apart);
      add_norm(r, "ln2.w", "feedforward_layer_norm", "post_attention_layernorm");
    } else {
      add_llama_attention(r, c);
      add_norm(r, "ln1_post.w", "post_attention_layernorm", "feedforward_layer_norm");
      r.norm("ln2_post", "post_feedforward_layernorm");
    }
    add_llama_mlp(r, c);
  });
}

// OLMoE (Muennighoff et al. 2024): mixtures of experts, one norm over all heads of queries and of keys.
ModelConfig read_olmoe(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 4096, .eps = 1e-5});
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  c.qk_norm = QkNorm{.span = QkNorm::whole_projection};
  hf.require_unset({"sliding_window"});  // honoured by only some of transformers' attention kernels
  if (json.has("clip_qkv")) c.qkv_clip = hf.positive_or("clip_qkv", 0.0);
  read_experts(hf, c, {.n_experts_fallback = 64, .per_token_fallback = 8});
  c.experts->renormalised = json.boolean_or("norm_topk_prob", false);
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFlexOlmo = llama_family("flex_olmo", read_flex_olmo, olmo2_recipes);
extern const Family kOlmo = llama_family("olmo", read_olmo, olmo_recipes);
extern const Family kOlmo2 = llama_family("olmo2", read_olmo2, olmo2_recipes);
extern const Family kOlmo3 = llama_family("olmo3", read_olmo3, olmo2_recipes);
extern const Family kOlmoHybrid = llama_family("olmo_hybrid", read_olmo_hybrid, olmo_hybrid_recipes);
extern const Family kOlmoe = llama_family("olmoe", read_olmoe, usual_mixture_recipes);

}  // namespace hooked::families::olmo
