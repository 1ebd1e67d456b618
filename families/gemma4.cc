// Gemma 4.
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "families/shared/expert_config.h"
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::gemma4 {
namespace {

/// Defaults of the text models of Gemma 4.
struct Gemma4Defaults {
  std::int64_t n_ctx;
  std::int64_t window;
  /// Width of the per-layer embeddings, which layers read in addition to the stream; 0: the family has none.
  std::int64_t layer_input = 0;
  bool mixtures = false;  ///< whether the family has experts in addition to its MLPs
};

constexpr std::string_view kPerLayer = "per_layer_config";
constexpr std::string_view kSharedProjection = "attention_k_eq_v";

// Sizes of the heads of one layer.
struct Heads {
  std::int64_t d_head, n_kv_heads;

  bool operator==(const Heads&) const = default;
};

// The number of a layer, by its key in `per_layer_config`.
std::int64_t layer_number(const ConfigReader& layers, const std::string& key, const ModelConfig& c) {
  std::int64_t layer = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), layer);
  if (error != std::errc() || end != key.data() + key.size() || layer < 0 || layer >= c.n_layers) {
    layers.refuse(key, fmt::format("is not a layer; expected keys from 0 to {}", c.n_layers - 1));
  }
  return layer;
}

// The heads of each layer; what files say about single layers overrides global_head_dim.
std::vector<Heads> heads_by_layer(const HfConfig& hf, const ModelConfig& c) {
  std::vector<Heads> heads(static_cast<std::size_t>(c.n_layers), Heads{c.d_head, c.n_kv_heads});
  const auto layers = hf.json().object_if(kPerLayer);
  if (!layers) return heads;
  for (const std::string& key : layers->keys()) {
    Heads& own = heads[static_cast<std::size_t>(layer_number(*layers, key, c))];
    const ConfigReader of_layer = layers->object(key);
    own.d_head = of_layer.integer_or("head_dim", own.d_head);
    own.n_kv_heads = of_layer.integer_or("num_key_value_heads", own.n_kv_heads);
    of_layer.refuse_unread();
  }
  return heads;
}

// The heads of layers without a window, and those of the others; all layers of a kind must have the same.
void read_heads(HfConfig& hf, ModelConfig& c) {
  const ConfigReader& json = hf.json();
  const bool shared = json.boolean_or(kSharedProjection, false);
  constexpr std::string_view kWidth = "global_head_dim", kKeys = "num_global_key_value_heads";
  Heads full{hf.count_or(kWidth, 512), c.n_kv_heads};
  // transformers reads them only if values come from the keys' projection.
  if (json.has(kKeys)) full.n_kv_heads = shared ? hf.count(kKeys) : c.n_kv_heads;
  std::optional<Heads> windowed;
  hf.comes_from("full_heads.d_head", json.where(kWidth));
  hf.comes_from("full_heads.n_kv_heads", json.where(kKeys));
  if (json.has(kPerLayer) || json.is_null(kPerLayer)) {
    const std::vector<Heads> heads = heads_by_layer(hf, c);
    std::optional<Heads> of_kind[2];
    for (std::int64_t l = 0; l < c.n_layers; ++l) {
      std::optional<Heads>& own = of_kind[c.windowed(l)];
      if (!own) own = heads[static_cast<std::size_t>(l)];
      if (*own == heads[static_cast<std::size_t>(l)]) continue;
      json.refuse(kPerLayer,
                  "has other heads for layers of one kind; expected the same for all layers with a "
                  "window, and for all without");
    }
    full = *of_kind[false];
    windowed = of_kind[true];
    for (const auto field : {"full_heads.d_head", "full_heads.n_kv_heads", "d_head", "n_kv_heads"}) {
      hf.comes_from(field, json.where(kPerLayer));
    }
  }
  if (windowed) std::tie(c.d_head, c.n_kv_heads) = std::pair{windowed->d_head, windowed->n_kv_heads};
  if (!c.window) {
    std::tie(c.d_head, c.n_kv_heads) = std::pair{full.d_head, full.n_kv_heads};
  } else if (full != Heads{c.d_head, c.n_kv_heads}) {
    c.full_heads = FullHeads{.d_head = full.d_head, .n_kv_heads = full.n_kv_heads};
  }
}

void read_windows(HfConfig& hf, ModelConfig& c, const Gemma4Defaults& defaults) {
  const ConfigReader& json = hf.json();
  LayerFlags windowed = hf.layers_of_type(c, [](std::int64_t l) { return (l + 1) % 6 != 0; });
  if (windowed.back()) {
    windowed.back() = false;
    hf.note("the last layer has no window, whatever layer_types says, as in transformers");
  }
  hf.set_windows(c, {"sliding_window", defaults.window}, std::move(windowed));
  constexpr std::string_view kBothWays = "use_bidirectional_attention";
  const std::string both_ways = json.text_or(kBothWays, "vision");
  if (both_ways != "vision" && both_ways != "all") {
    json.refuse(kBothWays, "is not supported; expected null, vision, which is about images, or all");
  }
  if (both_ways != "all") return;
  c.direction = AttentionDirection::bidirectional;
  // The key counts both directions, and transformers computes a distance from it that is still visible.
  if (c.window) c.window->size = c.window->size / 2 + 2;
}

// Layers at the end that attend with the keys and values of earlier ones (KV sharing).
void read_shared_keys(HfConfig& hf, ModelConfig& c) {
  const ConfigReader& json = hf.json();
  constexpr std::string_view kShared = "num_kv_shared_layers";
  const bool wide = json.boolean_or("use_double_wide_mlp", false);
  const std::int64_t layers = json.integer_or(kShared, 0);
  if (layers == 0) return;
  if (layers < 0 || layers >= c.n_layers) {
    json.refuse(kShared,
                fmt::format("is {} of {} layers; expected 0 to {}", layers, c.n_layers, c.n_layers - 1));
  }
  if (wide && c.experts) {
    json.refuse("use_double_wide_mlp", "is not supported together with experts; expected false");
  }
  hf.comes_from("shared_keys.layers", json.where(kShared));
  hf.comes_from("shared_keys.d_mlp", json.where("intermediate_size"));
  c.shared_keys = SharedKeys{.layers = layers, .d_mlp = wide ? 2 * c.d_mlp : c.d_mlp};
}

constexpr std::string_view kLayerInputRows = "vocab_size_per_layer_input";

// Number of rows of the per-layer embeddings; those of the vocabulary are read.
std::int64_t layer_input_rows(const HfConfig& hf) { return hf.json().integer_or(kLayerInputRows, 262144); }

// The per-layer embeddings: what each layer reads of tokens in addition to the stream.
void read_layer_input(HfConfig& hf, ModelConfig& c, const Gemma4Defaults& defaults) {
  const ConfigReader& json = hf.json();
  constexpr std::string_view kWidth = "hidden_size_per_layer_input";
  const std::int64_t width = json.integer_or(kWidth, defaults.layer_input);
  if (width != 0 && defaults.layer_input == 0) {
    json.refuse(kWidth, "is not read by models of this type; expected 0, or none");
  }
  const std::int64_t rows = layer_input_rows(hf);
  if (width == 0) return;
  if (rows < c.d_vocab) {
    json.refuse(kLayerInputRows,
                fmt::format("gives tables of {} rows, too few for vocab_size = {}; expected at least as "
                            "many",
                            rows, c.d_vocab));
  }
  c.layer_input = LayerInput{.width = width};
  hf.comes_from("layer_input.width", json.where(kWidth));
}

// The tables and maps of all layers are one matrix each, [.., layer * width].
void add_layer_inputs(Recipes& r, const ModelConfig& c, std::int64_t rows) {
  using Tensors = std::vector<at::Tensor>;
  const std::int64_t layers = c.n_layers, width = c.layer_input->width;
  for (std::int64_t l = 0; l < layers; ++l) {
    const std::string ours = fmt::format("blocks.{}.layer_input.", l);
    r.make(ours + "W_token", {"embed_tokens_per_layer.weight"},
           [l, rows, layers, width, vocab = c.d_vocab](const Tensors& table) {
             // In steps, so that a table of another shape with the same number of elements fails.
             const at::Tensor by_layer = table[0].unflatten(1, {layers, width}).select(1, l);
             return by_layer.unflatten(0, {rows, 1}).select(1, 0).narrow(0, 0, vocab);
           });
    r.make(ours + "W_embed", {"per_layer_model_projection.weight"}, [l, layers, width](const Tensors& map) {
      return map[0].unflatten(0, {layers, width}).select(0, l).t();
    });
    r.copy(ours + "ln.w", "per_layer_projection_norm.weight");
  }
}

// Experts in addition to the MLP; every token goes to the MLP, so it is a shared expert.
void read_mixtures(HfConfig& hf, ModelConfig& c, const Gemma4Defaults& defaults) {
  const ConfigReader& json = hf.json();
  constexpr std::string_view kMixtures = "enable_moe_block", kWidth = "moe_intermediate_size",
                             kCount = "num_experts";
  json.ignore({kWidth, kCount, "top_k_experts"});  // without effect if there are none
  if (!defaults.mixtures) hf.require_unset({kMixtures});
  if (!json.boolean_or(kMixtures, false)) return;
  const std::int64_t d_shared = c.d_mlp;
  read_experts(hf, c, {.n_experts = kCount, .n_experts_alias = kCount, .per_token = "top_k_experts"});
  set_expert_width(hf, c, kWidth, /*dense=*/{});
  hf.comes_from("d_mlp", json.where(kWidth));
  Experts& e = *c.experts;
  e.d_shared = d_shared;
  hf.comes_from("experts.d_shared", json.where("intermediate_size"));
  e.renormalised = e.own_norms = e.expert_scale = true;
}

// The parts of a block's mixture that other families lack, in addition to the norms of the stream.
void add_mixture(Recipes& r, const ModelConfig& c) {
  r.mixture({.router = "router.proj.weight",
             .expert = "",
             .gate_up = "experts.gate_up_proj",
             .down = "experts.down_proj"});
  r.shared_expert("mlp");
  r.copy("mlp.expert_scale", "router.per_expert_scale");
  const double scale = 1.0 / std::sqrt(static_cast<double>(c.d_model));
  r.scaled_copy("mlp.router_ln.w", "router.scale", scale);
  r.norm("mlp.experts_ln", "pre_feedforward_layernorm_2");
  r.norm("mlp.experts_ln_post", "post_feedforward_layernorm_2");
  r.norm("mlp.shared_expert.ln_post", "post_feedforward_layernorm_1");
}

// Gemma 4 (Google 2026): heads of another size in layers without a window; norms of queries, keys and
// values; a number that multiplies the stream after each block; optionally KV sharing in the last layers,
// per-layer embeddings, and experts in addition to the MLPs.
ModelConfig read_gemma4_config(HfConfig& hf, const Gemma4Defaults& defaults) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = defaults.n_ctx,
                                         .n_kv_heads = 4,
                                         .tied = true,
                                         .d_head = 256,
                                         .activation_key = "hidden_activation",
                                         .activation = "gelu_pytorch_tanh"});
  read_mixtures(hf, c, defaults);
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  c.norm_place = NormPlace::both;
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  c.value_norm = c.layer_scale = true;
  c.attn_scale = 1.0;
  c.embedding_scale = std::sqrt(static_cast<double>(c.d_model));
  constexpr std::string_view kCap = "final_logit_softcapping";
  if (json.has(kCap)) c.unembedding->soft_cap = hf.positive_or(kCap, 0.0);
  read_windows(hf, c, defaults);
  read_heads(hf, c);
  read_shared_keys(hf, c);
  read_layer_input(hf, c, defaults);
  hf.require_unset({"rope_theta", "rope_scaling"});  // not read by transformers
  if (!json.has("rope_parameters") && c.head_width_of(/*in_windowed=*/false) < 8) {
    json.refuse("rope_parameters",
                "turns a quarter of the pairs of a head, and heads of fewer than 8 dimensions "
                "have none in a quarter; expected the key, or wider heads");
  }
  read_layered_rope(hf, c,
                    {.theta = 1e6,
                     .windowed_theta = 1e4,
                     .full_group = R"({"rope_type": "proportional", "partial_rotary_factor": 0.25})",
                     .proportional = true});
  return c;
}

std::vector<TensorRecipe> gemma4_recipes(const ModelConfig& config, const HfConfig& hf) {
  const bool shared = hf.json().boolean_or(kSharedProjection, false);
  std::vector<TensorRecipe> all = llama_stack(config, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    r.queries("self_attn.q_proj");
    r.keys("self_attn.k_proj");
    r.values(shared && !config.windowed(r.layer()) ? "self_attn.k_proj" : "self_attn.v_proj");
    r.qk_norm("self_attn.q_norm", "self_attn.k_norm");
    r.attention_out("self_attn.o_proj");
    r.norm("ln1_post", "post_attention_layernorm");
    r.norm("ln2", "pre_feedforward_layernorm");
    if (config.mixture(r.layer())) {
      add_mixture(r, config);
    } else {
      add_llama_mlp(r, config);
    }
    r.norm("ln2_post", "post_feedforward_layernorm");
    if (config.layer_input) {
      r.turned("layer_input.W_gate", "per_layer_input_gate.weight");
      r.turned("layer_input.W_out", "per_layer_projection.weight");
      r.norm("layer_input.ln_post", "post_per_layer_input_norm");
    }
    r.copy("resid_scale", "layer_scalar");
  });
  if (!config.layer_input) return all;
  Recipes r(config);
  add_layer_inputs(r, config, layer_input_rows(hf));
  for (TensorRecipe& recipe : std::move(r).take()) all.push_back(std::move(recipe));
  return all;
}

// Gemma 4, its text model (Google 2026), with or without experts in addition to its MLPs.
ModelConfig read_gemma4_text(HfConfig& hf) {
  return read_gemma4_config(hf, {.n_ctx = 131072, .window = 512, .layer_input = 256, .mixtures = true});
}

// The text model of Gemma 4 without towers for images and sounds (Google 2026).
ModelConfig read_gemma4_unified_text(HfConfig& hf) {
  return read_gemma4_config(hf, {.n_ctx = 262144, .window = 1024});
}

}  // namespace

extern const Family kGemma4Text = llama_family("gemma4_text", read_gemma4_text, gemma4_recipes);
extern const Family kGemma4UnifiedText =
    llama_family("gemma4_unified_text", read_gemma4_unified_text, gemma4_recipes);

}  // namespace hooked::families::gemma4
