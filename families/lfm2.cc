// LFM2 (Liquid AI 2025): short convolutions between two gates in most layers, attention with normed queries
// and keys in the others.
#include <fmt/format.h>

#include <cmath>

#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::lfm2 {
namespace {

constexpr std::string_view kPublishedWidth = "block_ff_dim";  // takes precedence over intermediate_size

// Two thirds of the given width, rounded up to a multiple.
std::int64_t adjusted_width(const HfConfig& hf, std::int64_t width) {
  const ConfigReader& json = hf.json();
  const bool adjusts = json.boolean_or("block_auto_adjust_ff_dim", true);
  const std::int64_t multiple = hf.count_or("block_multiple_of", 256);
  const bool multiplies = !json.is_null("block_ffn_dim_multiplier");
  const double times = multiplies ? hf.positive_or("block_ffn_dim_multiplier", 1.0) : 1.0;
  if (!adjusts) return width;
  width = 2 * width / 3;
  if (!multiplies) return width;
  const double multiplied = times * static_cast<double>(width);
  if (!(multiplied >= 1 && multiplied <= static_cast<double>(1 << 24))) {
    json.refuse("block_ffn_dim_multiplier",
                fmt::format("makes an MLP of {} neurons; expected 1 to {}", multiplied, 1 << 24));
  }
  width = static_cast<std::int64_t>(multiplied);
  return (width + multiple - 1) / multiple * multiple;
}

// Whether each layer has a short convolution, and the key that says so.
std::pair<LayerFlags, std::string_view> convolving_layers(const HfConfig& hf, const ModelConfig& c) {
  const ConfigReader& json = hf.json();
  if (json.has("layer_types")) {
    json.ignore({"full_attn_idxs"});
    return {hf.layers_of_type(c, nullptr, "conv"), "layer_types"};
  }
  if (!json.has("full_attn_idxs")) return {LayerFlags(c.n_layers, false), "layer_types"};
  LayerFlags convolves(c.n_layers, true);
  for (const std::int64_t layer : json.integers("full_attn_idxs")) {
    if (layer < 0 || layer >= c.n_layers) continue;  // as transformers does it
    convolves[static_cast<std::size_t>(layer)] = false;
  }
  return {convolves, "full_attn_idxs"};
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  SizeKeys keys{.n_kv_heads_fallback = 8, .n_ctx_fallback = 128000};
  if (json.has(kPublishedWidth)) keys.d_mlp = kPublishedWidth;
  const bool names_width = json.has(keys.d_mlp);
  if (!names_width) keys.mlp_ratio = 1;  // any: transformers has a default of its own
  ModelConfig c = hf.sizes(keys, /*tied=*/true);
  if (!names_width) c.d_mlp = 12288;
  if (json.has("tie_embedding")) c.unembedding->tied = json.boolean_or("tie_embedding", true);
  // From the published code before transformers: repetitions, or about training.
  json.ignore({"intermediate_size", "block_mlp_init_scale", "block_out_init_scale"});
  c.d_mlp = adjusted_width(hf, c.d_mlp);
  c.norm = c.final_norm = NormKind::rms_norm;
  c.eps = hf.positive_or("norm_eps", 1e-5);
  c.mlp = MlpKind::gated;
  c.activation = Activation::silu;
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  const std::int64_t kernel = hf.count_or("conv_L_cache", 3);
  const bool bias = json.boolean_or("conv_bias", false);
  auto [convolves, key] = convolving_layers(hf, c);
  hf.comes_from("short_conv.layers", json.where(key));
  convolves = none_if_all_false(std::move(convolves));
  if (!convolves.empty()) {
    c.short_conv = ShortConvolution{.kernel = kernel, .bias = bias, .layers = std::move(convolves)};
  }
  read_rope(hf, c, {.theta = 1e6});
  return c;
}

std::vector<TensorRecipe> recipes(const ModelConfig& config) {
  Recipes r(config);
  r.embedding("embed_tokens.weight");
  r.each_block("layers.{}.", [&](std::int64_t layer) {
    r.norm("ln1", "operator_norm");
    if (config.convolves(layer)) {
      r.short_convolution("conv.in_proj", "conv.conv", "conv.out_proj");
    } else {
      r.queries("self_attn.q_proj");
      r.keys("self_attn.k_proj");
      r.values("self_attn.v_proj");
      r.qk_norm("self_attn.q_layernorm", "self_attn.k_layernorm");
      r.attention_out("self_attn.out_proj");
    }
    r.norm("ln2", "ffn_norm");
    r.mlp_gate("feed_forward.w1");
    r.mlp_in("feed_forward.w3");
    r.mlp_out("feed_forward.w2");
  });
  r.norm("ln_final", "embedding_norm");
  r.unembedding("lm_head");
  return std::move(r).take();
}

}  // namespace

extern const Family kLfm2 = llama_family("lfm2", read, recipes);

}  // namespace hooked::families::lfm2
