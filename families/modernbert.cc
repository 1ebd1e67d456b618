// ModernBERT, as an encoder and as a decoder.
#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <utility>

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"
#include "families/shared/rope_config.h"

namespace hooked::families::modernbert {
namespace {

constexpr std::string_view kModernBertWindow = "local_attention";

// A group of rotary keys for each kind of layer, or in the older style two keys.
void read_modernbert_positions(HfConfig& hf, ModelConfig& c) {
  const ConfigReader& json = hf.json();
  if (json.holds_object("rope_parameters")) {
    return read_layered_rope(hf, c,
                             {.theta = 160000.0,
                              .windowed_theta = 10000.0,
                              .theta_key = "global_rope_theta",
                              .windowed_theta_key = "local_rope_theta"});
  }
  const double full = hf.positive_or("global_rope_theta", 160000.0);
  const double windowed = hf.positive_or("local_rope_theta", 10000.0);
  hf.require_unset({"rope_scaling", "rope_parameters"});
  RotaryPositions rotary{.base = full};
  if (c.window && windowed != full) rotary.local_base = windowed;
  c.positions = rotary;
}

// The config of ModernBERT or of its decoder except their directions and windows: rotary positions with
// another base for windowed layers, gated MLPs, a norm of the embedding instead of the first layer's, and a
// head. `local_attention` counts the keys of both directions. Half of it is the reach, from which
// `window_of` computes the size of a window.
ModelConfig read_modernbert_config(HfConfig& hf,
                                   const std::function<std::int64_t(std::int64_t reach)>& window_of) {
  const ConfigReader& json = hf.json();
  ModelConfig c = hf.sizes({.n_kv_heads = {}, .d_head = {}, .n_ctx_fallback = 8192}, /*tied=*/true);
  c.mlp = MlpKind::gated;
  c.activation = hf.activation("hidden_activation", "gelu");
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  c.mlp_bias = json.boolean_or("mlp_bias", false);
  c.norm_bias = json.boolean_or("norm_bias", false);
  c.eps = hf.positive_or("norm_eps", 1e-5);
  c.post_embedding_norm = true;
  c.first_attention_norm = false;
  c.unembedding->bias = json.boolean_or("decoder_bias", true);
  c.unembedding->mlm_head = hf.activation("classifier_activation", "gelu");
  json.boolean_or("classifier_bias", false);  // refused here if it is neither

  constexpr std::string_view kEvery = "global_attn_every_n_layers";
  const std::int64_t every = hf.count_or(kEvery, 3);
  hf.set_windows(c, {kModernBertWindow, 128},
                 hf.layers_of_type(c, [&](std::int64_t l) { return l % every != 0; }));
  json.ignore({kModernBertWindow, kEvery});
  if (c.window) {
    const std::int64_t reach = c.window->size / 2;
    if (reach < 1)
      json.refuse(kModernBertWindow,
                  "leaves windows without any key but the token's own; expected at least 2");
    c.window->size = window_of(reach);
  }
  read_modernbert_positions(hf, c);
  // transformers rotates d_model / n_heads dimensions by angles for head_dim of them.
  hf.require_unset({"head_dim"});
  hf.comes_from("rotary.dim", hf.json().where("hidden_size"));  // an odd part of it
  // Published configs say `absolute`, which transformers does not read. The others are about kernels and
  // training.
  json.ignore({"position_embedding_type", "deterministic_flash_attn"});
  return c;
}

// The tensors that both have under the same names, except queries, keys and values, which `add_heads` reads.
// The head is a layer and a norm in `head`, before the unembedding `decoder`.
std::vector<TensorRecipe> modernbert_recipes(const ModelConfig& c, const HfConfig& hf, std::string_view head,
                                             const std::function<void(Recipes&)>& add_heads) {
  Recipes r(c);
  r.embedding("embeddings.tok_embeddings.weight");
  r.norm("embed.ln", "embeddings.norm");
  r.each_block("layers.{}.", [&](std::int64_t layer) {
    if (c.reads_through_ln1(layer)) r.norm("ln1", "attn_norm");
    add_heads(r);
    r.attention_out("attn.Wo");
    r.norm("ln2", "mlp_norm");
    r.fused_gate_up("mlp.Wi");
    r.mlp_out("mlp.Wo");
  });
  r.norm("ln_final", "final_norm");
  r.mlm_head(fmt::format("{}.dense", head), fmt::format("{}.norm", head),
             hf.json().boolean_or("classifier_bias", false) ? Recipes::LayerBias::stored
                                                            : Recipes::LayerBias::zeros);
  r.unembedding("decoder");
  return std::move(r).take();
}

// ModernBERT (Warner et al. 2024): an encoder with rotary positions, windows in two layers of three, gated
// MLPs and no norm before the first attention.

std::vector<TensorRecipe> modernbert_recipes(const ModelConfig& c, const HfConfig& hf) {
  return modernbert_recipes(c, hf, "head",
                            [&](Recipes& r) { r.fused_qkv("attn.Wqkv", FusedHeads::side_by_side(c)); });
}

ModelConfig read_modernbert(HfConfig& hf) {
  // The same number of keys on either side, and the token's own.
  ModelConfig c = read_modernbert_config(hf, [](std::int64_t reach) { return reach + 1; });
  c.direction = AttentionDirection::bidirectional;
  return c;
}

// ModernBERT as a decoder (Weller et al. 2025, Ettin): causal, with separate queries, keys and values.

std::vector<TensorRecipe> modernbert_decoder_recipes(const ModelConfig& c, const HfConfig& hf) {
  return modernbert_recipes(c, hf, "lm_head", [](Recipes& r) {
    r.queries("attn.q_proj");
    r.keys("attn.k_proj");
    r.values("attn.v_proj");
  });
}

ModelConfig read_modernbert_decoder(HfConfig& hf) {
  // A window's number of keys includes the token's own key.
  ModelConfig c = read_modernbert_config(hf, [](std::int64_t reach) { return reach; });
  hf.json().ignore({"sliding_window"});  // transformers writes it, and computes it anew
  return c;
}

}  // namespace

extern const Family kModernbert{.model_type = "modernbert",
                                .read = read_modernbert,
                                .recipes = modernbert_recipes,
                                .prefix = "model.",
                                .unembedding = "decoder.weight",
                                .optional_part = masked_lm_head_behind_norm("head.")};

extern const Family kModernbertDecoder{.model_type = "modernbert-decoder",
                                       .read = read_modernbert_decoder,
                                       .recipes = modernbert_decoder_recipes,
                                       .prefix = "model.",
                                       .unembedding = "decoder.weight",
                                       .optional_part = masked_lm_head_behind_norm("lm_head.")};

}  // namespace hooked::families::modernbert
