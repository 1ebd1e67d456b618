// Qwen.
#include <algorithm>
#include <utility>
#include <vector>

#include "families/shared/delta_net_layout.h"
#include "families/shared/expert_config.h"
#include "families/shared/hf_config.h"
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::qwen {
namespace {

// All layers but every fourth, or every n-th by the file.
LayerFlags layers_between(HfConfig& hf, const ModelConfig& c) {
  const bool said = hf.json().has("full_attention_interval");
  const std::int64_t interval = said ? hf.count("full_attention_interval") : 4;
  hf.comes_from("delta_net.layers", hf.json().where(said ? "full_attention_interval" : "num_hidden_layers"));
  return flag_layers(c, [&](std::int64_t l) { return (l + 1) % interval != 0; });
}

// Qwen's `layer_types` or `full_attention_interval`, and the keys `linear_*` about gated delta nets in the
// other layers. Heads of attention are gated, queries and keys normed.
void read_qwen_delta_nets(HfConfig& hf, ModelConfig& c) {
  const ConfigReader& json = hf.json();
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  c.norm_offset = true;
  c.gated_heads = true;
  LayerFlags layers = none_if_all_false(linear_layers(hf, c, [&] { return layers_between(hf, c); }));
  json.ignore({"full_attention_interval", "linear_num_key_heads", "linear_num_value_heads",
               "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim"});
  if (!layers.empty()) c.delta_net = read_delta_nets(hf, c, std::move(layers));
}

// `linear_attn` of a block, or `self_attn` with gates among its queries.
void add_qwen_mixer(Recipes& r, const ModelConfig& c, DeltaNetFiles files) {
  if (!c.recurs(r.layer())) {
    r.gated_queries("self_attn.q_proj");
    r.keys("self_attn.k_proj");
    r.values("self_attn.v_proj");
    r.qk_norm("self_attn.q_norm", "self_attn.k_norm");
    r.attention_out("self_attn.o_proj");
    return;
  }
  add_delta_net(r, c, files);
}

// `norm_topk_prob`, `mlp_only_layers` and `decoder_sparse_step`.
void read_qwen_experts(HfConfig& hf, ModelConfig& config) {
  const ConfigReader& json = hf.json();
  config.experts->renormalised = json.boolean_or("norm_topk_prob", false);
  const std::vector<std::int64_t> dense =
      json.has("mlp_only_layers") ? json.integers("mlp_only_layers") : std::vector<std::int64_t>();
  const std::int64_t step = hf.count_or("decoder_sparse_step", 1);
  set_expert_width(hf, config, "moe_intermediate_size", flag_layers(config, [&](std::int64_t l) {
                     return (l + 1) % step != 0 || std::ranges::find(dense, l) != dense.end();
                   }));
}

// A mixture, and a shared expert with a sigmoid gate.
void add_gated_mixture(Recipes& r) {
  r.mixture({});
  r.shared_expert("mlp.shared_expert");
  r.copy("mlp.shared_expert_gate.weight", "mlp.shared_expert_gate.weight");
}

// Blocks with delta nets, with a mixture or an MLP.
std::vector<TensorRecipe> delta_net_recipes(const ModelConfig& c, DeltaNetFiles files) {
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_qwen_mixer(r, c, files);
    r.norm("ln2", "post_attention_layernorm");
    c.mixture(r.layer()) ? add_gated_mixture(r) : add_llama_mlp(r, c);
  });
}

std::vector<TensorRecipe> qwen3_5_recipes(const ModelConfig& c) {
  return delta_net_recipes(c, DeltaNetFiles::in_parts);
}

std::vector<TensorRecipe> qwen3_next_recipes(const ModelConfig& c) {
  return delta_net_recipes(c, DeltaNetFiles::by_key_head);
}

/// Other tensors in files, without effect on the model: `mtp.*` predicts several tokens at once.
constexpr std::string_view kDeltaNetBuffers[] = {"*rotary_emb.inv_freq", "mtp.*"};

/// The row of a Qwen family with such layers.
constexpr Family delta_net_family(std::string_view model_type, ModelConfig (*read)(HfConfig& config),
                                  FamilyRecipes recipes) {
  Family family = llama_family(model_type, read, recipes);
  family.buffers = kDeltaNetBuffers;
  return family;
}

// Throws ConfigError if `layer_types` names a windowed layer although `use_sliding_window` is false.
void refuse_windows_without_use(HfConfig& hf, const LayerFlags& windowed) {
  if (none_if_all_false(windowed).empty()) return;
  hf.json().refuse("layer_types",
                   "has windowed layers, and use_sliding_window says that there are none; expected only "
                   "full_attention, or use_sliding_window = true");
}

// The windows of Qwen 2 and 3: none unless `use_sliding_window`; then those of `layer_types`, or of the
// layers from `max_window_layers` on (`first` if the key is absent).
void read_qwen_windows(HfConfig& hf, ModelConfig& config, std::int64_t first = 28) {
  const ConfigReader& json = hf.json();
  const bool used = json.boolean_or("use_sliding_window", false);
  first = json.integer_or("max_window_layers", first);
  LayerFlags windowed = hf.layers_of_type(config, [&](std::int64_t l) { return l >= first; });
  json.ignore({"sliding_window"});
  const bool named = json.has("layer_types");
  if (used) {
    hf.set_windows(config, {"sliding_window", 4096, /*null_is_none=*/!named}, std::move(windowed));
  } else if (named) {
    refuse_windows_without_use(hf, windowed);
  }
}

// Qwen 1.5, 2 and 2.5 (Yang et al. 2024): Llama with biases on queries, keys and values.
ModelConfig read_qwen2(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 32768, .n_kv_heads = 32});
  c.qkv_bias = true;
  c.default_prepend_bos = false;
  read_qwen_windows(hf, c);
  read_rope(hf, c);
  return c;
}

// The text model of Qwen 2-VL and 2.5-VL (Bai et al. 2025): Qwen 2 with rotary positions in sections, which
// make no difference for text.
ModelConfig read_qwen2_5_vl_text(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 32768, .n_kv_heads = 8, .eps = 1e-5});
  c.qkv_bias = true;
  c.default_prepend_bos = false;
  read_qwen_windows(hf, c, /*first=*/80);
  read_rope(hf, c, {.theta = 1e6, .sections = true});
  return c;
}

// Qwen 1.5 and 2 with mixtures of experts (Yang et al. 2024): a shared expert with a sigmoid gate, ordinary
// MLPs in some layers.

std::vector<TensorRecipe> qwen2_moe_recipes(const ModelConfig& c) {
  return mixture_recipes(c, add_gated_mixture);
}

ModelConfig read_qwen2_moe(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 32768, .n_kv_heads = 16});
  c.qkv_bias = json.boolean_or("qkv_bias", true);
  c.default_prepend_bos = false;
  read_experts(hf, c, {.n_experts_fallback = 60, .per_token_fallback = 4});
  c.experts->d_shared = hf.count("shared_expert_intermediate_size");
  c.experts->shared_gate = true;
  read_qwen_experts(hf, c);
  // Every other layer of the first models, unlike Qwen 2 without experts.
  const bool windows = json.boolean_or("use_sliding_window", false);
  const std::int64_t end = json.integer_or("max_window_layers", 28);
  const LayerFlags windowed =
      hf.layers_of_type(c, [&](std::int64_t l) { return windows && l % 2 == 0 && l < end; });
  json.ignore({"sliding_window"});
  if (windows) {
    hf.set_windows(c, {"sliding_window", 4096}, windowed);
  } else {
    refuse_windows_without_use(hf, windowed);
  }
  read_rope(hf, c);
  return c;
}

// Qwen 3 (Yang et al. 2025): Llama with a norm on each query and key.
ModelConfig read_qwen3(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 32768, .n_kv_heads = 32, .d_head = 128});
  read_llama_biases(hf, c);
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  c.default_prepend_bos = false;
  read_qwen_windows(hf, c);
  read_rope(hf, c);
  return c;
}

// The text model of Qwen 3.5 with mixtures of experts (Qwen Team 2026): that of Qwen 3.5 with a mixture and a
// shared expert with a sigmoid gate in every layer.
ModelConfig read_qwen3_5_moe_text(HfConfig& hf) {
  ModelConfig c = hf.sizes({.n_kv_heads_fallback = 2,
                            .d_head_fallback = 256,
                            .d_mlp = "moe_intermediate_size",
                            .n_ctx_fallback = 32768},
                           /*tied=*/false);
  c.norm = c.final_norm = NormKind::rms_norm;
  c.eps = hf.positive_or("rms_norm_eps", 1e-6);
  c.mlp = MlpKind::gated;
  c.activation = hf.activation("hidden_act", "silu");
  read_qwen_delta_nets(hf, c);
  c.default_prepend_bos = false;
  read_experts(hf, c, {.n_experts_fallback = 256, .per_token_fallback = 8});
  c.experts->d_shared = hf.count("shared_expert_intermediate_size");
  c.experts->shared_gate = c.experts->renormalised = true;
  read_rope(hf, c, {.partial = 0.25, .sections = true});
  return c;
}

// The text model of Qwen 3.5 (Qwen Team 2026): gated delta nets in three of four layers, attention with gated
// heads in the others; rotary positions in sections, which make no difference for text.
ModelConfig read_qwen3_5_text(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 32768, .n_kv_heads = 4, .d_head = 256});
  read_qwen_delta_nets(hf, c);
  c.default_prepend_bos = false;
  read_rope(hf, c, {.partial = 0.25, .sections = true});
  return c;
}

// Qwen 3 with mixtures of experts (Yang et al. 2025): norms on queries and keys, ordinary MLPs in some
// layers.
ModelConfig read_qwen3_moe(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 32768, .n_kv_heads = 4});
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  c.default_prepend_bos = false;
  read_experts(hf, c, {.n_experts_fallback = 128, .per_token_fallback = 8});
  read_qwen_experts(hf, c);
  json.ignore({"sliding_window", "max_window_layers"});
  if (json.boolean_or("use_sliding_window", false)) {
    hf.set_windows(c, {"sliding_window", 4096, /*null_is_none=*/true}, LayerFlags(c.n_layers, true));
  }
  read_rope(hf, c);
  return c;
}

// Qwen 3-Next (Qwen Team 2025): gated delta nets in three of four layers, attention with gated heads in the
// others, mixtures of many experts and a shared one with a sigmoid gate.
ModelConfig read_qwen3_next(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 32768, .n_kv_heads = 2, .d_head = 256});
  read_qwen_delta_nets(hf, c);
  c.default_prepend_bos = false;
  read_experts(hf, c, {.n_experts_fallback = 512, .per_token_fallback = 10});
  c.experts->d_shared = hf.count("shared_expert_intermediate_size");
  c.experts->shared_gate = true;
  read_qwen_experts(hf, c);
  if (c.experts) c.experts->renormalised = json.boolean_or("norm_topk_prob", true);
  read_rope(hf, c, {.partial = 0.25});
  return c;
}

// The text model of Qwen 3-VL with mixtures of experts (Qwen Team 2025): that of Qwen 3 with rotary positions
// in sections, which make no difference for text. One tensor has the matrices of all experts, transposed in
// files that transformers has not written.

std::vector<TensorRecipe> qwen3_vl_moe_text_recipes(const ModelConfig& config) {
  return mixture_recipes(config,
                         [](Recipes& r) { r.mixture({.expert = "", .turned = MixtureNames::where_needed}); });
}

ModelConfig read_qwen3_vl_moe_text(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 128000, .n_kv_heads = 16});
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  c.default_prepend_bos = false;
  read_experts(hf, c, {.n_experts_fallback = 60, .per_token_fallback = 4});
  const bool said_not = json.has("norm_topk_prob") && !json.boolean("norm_topk_prob");
  read_qwen_experts(hf, c);
  if (c.experts) c.experts->renormalised = true;
  if (said_not) hf.note("norm_topk_prob has no effect: transformers does not read it for this family");
  read_rope(hf, c, {.theta = 5e5, .sections = true});
  return c;
}

// The text model of Qwen 3-VL (Qwen Team 2025): Qwen 3 with rotary positions in sections, which make no
// difference for text.
ModelConfig read_qwen3_vl_text(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 128000, .n_kv_heads = 32, .d_head = 128});
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  c.default_prepend_bos = false;
  read_rope(hf, c, {.theta = 5e5, .sections = true});
  return c;
}

}  // namespace

extern const Family kQwen2 = llama_family("qwen2", read_qwen2, llama_recipes);
extern const Family kQwen25VlText = llama_family("qwen2_5_vl_text", read_qwen2_5_vl_text, llama_recipes);
extern const Family kQwen2Moe = llama_family("qwen2_moe", read_qwen2_moe, qwen2_moe_recipes);
extern const Family kQwen3 = llama_family("qwen3", read_qwen3, llama_recipes);
extern const Family kQwen35MoeText =
    delta_net_family("qwen3_5_moe_text", read_qwen3_5_moe_text, qwen3_5_recipes);
extern const Family kQwen35Text = delta_net_family("qwen3_5_text", read_qwen3_5_text, qwen3_5_recipes);
extern const Family kQwen3Moe = llama_family("qwen3_moe", read_qwen3_moe, usual_mixture_recipes);
extern const Family kQwen3Next = delta_net_family("qwen3_next", read_qwen3_next, qwen3_next_recipes);
extern const Family kQwen3VlMoeText =
    llama_family("qwen3_vl_moe_text", read_qwen3_vl_moe_text, qwen3_vl_moe_text_recipes);
extern const Family kQwen3VlText = llama_family("qwen3_vl_text", read_qwen3_vl_text, llama_recipes);

}  // namespace hooked::families::qwen
