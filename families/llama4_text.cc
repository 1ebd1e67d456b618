// Llama 4, its text model (Meta 2025): attention in chunks with rotary, and between these, layers without
// positions that see every key; norms of queries and keys without weights; mixtures whose experts read tokens
// times their weights.
#include <algorithm>
#include <vector>

#include "families/shared/expert_config.h"
#include "families/shared/rope_config.h"

namespace hooked::families::llama4_text {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    r.queries("self_attn.q_proj");
    r.keys("self_attn.k_proj");
    r.values("self_attn.v_proj");
    if (c.norms_heads(r.layer())) r.plain_qk_norm();
    r.attention_out("self_attn.o_proj");
    r.norm("ln2", "post_attention_layernorm");
    if (c.mixture(r.layer())) {
      r.mixture({.router = "feed_forward.router.weight",
                 .expert = "",
                 .gate_up = "feed_forward.experts.gate_up_proj",
                 .down = "feed_forward.experts.down_proj",
                 .turned = MixtureNames::yes});
      r.shared_expert("feed_forward.shared_expert");
    } else {
      r.mlp_gate("feed_forward.gate_proj");
      r.mlp_in("feed_forward.up_proj");
      r.mlp_out("feed_forward.down_proj");
    }
  });
}

// Ordinary MLPs have a width of their own; experts and the shared MLP have that of the others.
void read_mixtures(HfConfig& hf, ModelConfig& c) {
  const ConfigReader& json = hf.json();
  const std::int64_t d_expert = c.d_mlp;
  c.d_mlp = hf.count_or("intermediate_size_mlp", 16384);
  hf.comes_from("d_mlp", json.where("intermediate_size_mlp"));
  read_experts(hf, c, {.n_experts_fallback = 16, .per_token_fallback = 1});
  const std::int64_t step = hf.count_or("interleave_moe_layer_step", 1);
  const bool named = json.has("moe_layers");
  const std::vector<std::int64_t> mixtures =
      named ? json.integers("moe_layers") : std::vector<std::int64_t>();
  const LayerFlags dense = flag_layers(c, [&](std::int64_t l) {
    return named ? std::ranges::find(mixtures, l) == mixtures.end() : (l + 1) % step != 0;
  });
  c.experts->router = RouterKind::sigmoid_then_choose;
  c.experts->weighted_inputs = true;
  c.experts->d_shared = d_expert;
  set_expert_width(hf, c, "intermediate_size", dense);
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 8, .d_head = 128, .eps = 1e-5});
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  read_mixtures(hf, c);

  const LayerFlags rotated = rotated_layers(hf, c);
  LayerFlags unrotated = rotated;
  unrotated.flip();
  unrotated = none_if_all_false(std::move(unrotated));
  json.ignore({"attention_chunk_size", "floor_scale", "attn_scale"});  // without effect if no layer needs it
  hf.set_windows(
      c, {.name = "attention_chunk_size", .fallback = 8192, .kind = Window::chunks},
      hf.layers_of_type(
          c, [&](std::int64_t l) { return rotated[static_cast<std::size_t>(l)]; }, "chunked_attention"));
  read_rope(hf, c, {.theta = 5e5, .adjacent_pairs = true});
  c.rotary()->unrotated_layers = unrotated;

  const bool rotates = std::ranges::find(rotated, true) != rotated.end();
  if (json.boolean_or("use_qk_norm", true) && rotates) {
    c.qk_norm = QkNorm{.span = QkNorm::per_head, .after_rotary = true};
    if (!unrotated.empty()) c.qk_norm->layers = rotated;
  }
  const double growth = json.number_or("attn_scale", 0.1);
  if (json.boolean_or("attn_temperature_tuning", true) && growth != 0.0 && !unrotated.empty()) {
    c.query_growth = QueryGrowth{
        .growth = growth, .tokens = json.number_or("floor_scale", 8192.0), .offset = 1, .layers = unrotated};
    hf.comes_from("query_growth.growth", json.where("attn_scale"));
    hf.comes_from("query_growth.tokens", json.where("floor_scale"));
  }
  return c;
}

}  // namespace

extern const Family kLlama4Text = llama_family("llama4_text", read, recipes);

}  // namespace hooked::families::llama4_text
