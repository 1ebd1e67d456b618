// OLMo Hybrid (OLMo Team 2026): OLMo 3's attention in one layer of four, with norms of the sublayers'
// outputs; gated delta nets in the others, with norms of their inputs.
#include <string>
#include <utility>
#include <vector>

#include "families/shared/delta_net_layout.h"
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::olmo_hybrid {
namespace {

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

ModelConfig read(HfConfig& hf) {
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
  const auto count_or = [&](std::string_view key, std::int64_t fallback) {
    return json.has(key) ? hf.count(key) : fallback;
  };
  const std::int64_t key_heads = count_or("linear_num_key_heads", c.n_heads);
  const std::int64_t d_key = count_or("linear_key_head_dim", c.d_model * 3 / (4 * key_heads));
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

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
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

}  // namespace

extern const Family kFamily = llama_family("olmo_hybrid", read, recipes);

}  // namespace hooked::families::olmo_hybrid
