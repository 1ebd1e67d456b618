#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "core/model_config_words.h"
#include "hooked/core/model_config.h"

// Note [Fields of a config]
// Every field of ModelConfig is listed here once, with its path and its allowed values. This list gives the
// checks of single values (model_config.cc), the native folder's JSON (families/shared/
// native_config.cc) and the names in errors. Rules between fields are in model_config_rules.cc.

namespace hooked {

// Limits on what a config may ask for, so that a hostile file is refused before anything is allocated.
inline constexpr std::int64_t kMaxLayers = 10'000;
inline constexpr std::int64_t kMaxHeads = 1 << 14;
inline constexpr std::int64_t kMaxWidth = 1 << 24;  // d_model, d_mlp, n_heads * d_head, n_ctx, d_vocab
inline constexpr std::int64_t kMaxExperts = 1 << 12;
inline constexpr std::int64_t kMaxExpertModules = 1 << 18;  // of all layers together

/// The allowed values of one field.
namespace field {

struct Any {};
struct Between {
  std::int64_t least, most;
};
struct DivisorOf {
  std::string_view field;
  std::int64_t value;
};
struct RotaryDim {  ///< an even number of a head's dimensions, or 0 for all of them
  std::int64_t d_head;
};
struct Positive {};     ///< finite
struct NotNegative {};  ///< finite
struct NotZero {};      ///< finite
struct Above {          ///< finite, and more than another field
  std::string_view field;
  double value;
};
struct AtLeast {  ///< finite
  double least;
};
struct Scaling {};  ///< a factor that scales: finite, above 0 and not 1
struct EachLayer {  ///< a flag per layer, true for at least one
  std::int64_t n_layers;
  bool may_be_empty;
};
struct Finite {  ///< a list of this length
  std::int64_t count;
  std::string_view of;
};
struct AllPositive {  ///< a list of this length
  std::int64_t count;
  std::string_view of;
};
struct KnownActivation {
  bool with_weights = true;  ///< allow xielu, whose trained slopes only MLPs hold
};
struct FloatDtype {};
struct StepNames {};  ///< not empty, each at most once
template <class E, std::size_t N>
struct OneOf {
  const Word<E> (&words)[N];
};
template <class E, std::size_t N>
OneOf(const Word<E> (&)[N]) -> OneOf<E, N>;

}  // namespace field

/// Calls `visit(path, value, rule)` for every field that `config`, a ModelConfig or a const one, has.
template <class Visitor, class Config>
void visit_fields(Visitor&& visit, Config& config);

namespace field {

template <class Visitor, class Config, class Rotary>
void visit_rotary(Visitor& visit, Config& c, Rotary& rotary) {
  visit("rotary.dim", rotary.dim, RotaryDim{c.d_head});
  visit("rotary.base", rotary.base, Positive{});
  visit("rotary.local_base", rotary.local_base, Positive{});
  visit("rotary.adjacent_pairs", rotary.adjacent_pairs, Any{});
  visit("rotary.at_end", rotary.at_end, Any{});
  visit("rotary.reversed", rotary.reversed, Any{});
  visit("rotary.turned_pairs", rotary.turned_pairs, Between{0, c.rotary_dim_of(/*in_windowed=*/false) / 2});
  visit("rotary.unrotated_layers", rotary.unrotated_layers, EachLayer{c.n_layers, /*may_be_empty=*/true});
  if (auto* linear = std::get_if<LinearScaling>(&rotary.scaling)) {
    visit("rotary.linear.factor", linear->factor, Scaling{});
  } else if (auto* llama3 = std::get_if<Llama3Scaling>(&rotary.scaling)) {
    visit("rotary.llama3.factor", llama3->factor, Positive{});
    visit("rotary.llama3.low_freq_factor", llama3->low_freq_factor, Positive{});
    visit("rotary.llama3.high_freq_factor", llama3->high_freq_factor,
          Above{"low_freq_factor", llama3->low_freq_factor});
    visit("rotary.llama3.original_n_ctx", llama3->original_n_ctx, Positive{});
  } else if (auto* yarn = std::get_if<YarnScaling>(&rotary.scaling)) {
    visit("rotary.yarn.factor", yarn->factor, Positive{});
    visit("rotary.yarn.attention_factor", yarn->attention_factor, Positive{});
    visit("rotary.yarn.beta_slow", yarn->beta_slow, Positive{});
    visit("rotary.yarn.beta_fast", yarn->beta_fast, AtLeast{yarn->beta_slow});
    visit("rotary.yarn.original_n_ctx", yarn->original_n_ctx, Positive{});
    visit("rotary.yarn.truncate", yarn->truncate, Any{});
  } else if (auto* dynamic = std::get_if<DynamicScaling>(&rotary.scaling)) {
    visit("rotary.dynamic.factor", dynamic->factor, AtLeast{1.0});
    visit("rotary.dynamic.original_n_ctx", dynamic->original_n_ctx, Positive{});
  } else if (auto* longrope = std::get_if<LongropeScaling>(&rotary.scaling)) {
    constexpr std::string_view kPairs = "pairs of turned dimensions";
    const std::int64_t turned = c.rotary_dim_of(/*in_windowed=*/true) / 2;
    visit("rotary.longrope.short_factors", longrope->short_factors, AllPositive{turned, kPairs});
    visit("rotary.longrope.long_factors", longrope->long_factors, AllPositive{turned, kPairs});
    visit("rotary.longrope.original_n_ctx", longrope->original_n_ctx, Positive{});
    visit("rotary.longrope.attention_factor", longrope->attention_factor, Positive{});
    visit("rotary.longrope.long_attention_factor", longrope->long_attention_factor, Positive{});
  }
}

template <class Visitor, class Config>
void visit_positions(Visitor& visit, Config& c) {
  if (auto* rotary = c.rotary()) visit_rotary(visit, c, *rotary);
  if (auto* alibi = c.alibi()) {
    visit("alibi.slopes", alibi->slopes, Finite{c.n_heads, "heads"});
    visit("alibi.in_bfloat16", alibi->in_bfloat16, Any{});
    visit("alibi.scaled", alibi->scaled, Any{});
  }
  if (auto* relative = c.relative()) {
    const bool both_ways = c.has_encoder() || c.bidirectional(c.main_stack());
    visit("relative.buckets", relative->buckets, Between{both_ways ? 4 : 2, kMaxWidth});
    visit("relative.max_distance", relative->max_distance, Between{relative->buckets / 2 + 1, kMaxWidth});
    visit("relative.in_every_block", relative->in_every_block, Any{});
  }
}

template <class Visitor, class Config>
void visit_experts(Visitor& visit, Config& c) {
  if (!c.experts) return;
  auto& e = *c.experts;
  visit("experts.n_experts", e.n_experts,
        Between{1, std::min(kMaxExperts, kMaxExpertModules / std::max<std::int64_t>(1, c.n_layers))});
  visit("experts.per_token", e.per_token, Between{1, e.n_experts});
  visit("experts.renormalised", e.renormalised, Any{});
  visit("experts.d_expert", e.d_expert, Between{1, kMaxWidth});
  visit("experts.bias", e.bias, Any{});
  visit("experts.weighted_inputs", e.weighted_inputs, Any{});
  visit("experts.router", e.router, OneOf{kRouterKindWords});
  visit("experts.router_bias", e.router_bias, Any{});
  visit("experts.router_in_float32", e.router_in_float32, Any{});
  visit("experts.choice_bias", e.choice_bias, Any{});
  visit("experts.n_groups", e.n_groups, DivisorOf{"experts.n_experts", e.n_experts});
  visit("experts.groups_per_token", e.groups_per_token, Between{1, e.n_groups});
  visit("experts.group_score", e.group_score, OneOf{kGroupScoreWords});
  visit("experts.least_sum", e.least_sum, NotNegative{});
  visit("experts.added_to_sum", e.added_to_sum, NotNegative{});
  visit("experts.mixer_tolerance", e.mixer_tolerance, NotNegative{});
  visit("experts.d_shared", e.d_shared, Between{0, kMaxWidth});
  visit("experts.shared_gate", e.shared_gate, Any{});
  visit("experts.shared_gate_bias", e.shared_gate_bias, Any{});
  visit("experts.own_norms", e.own_norms, Any{});
  visit("experts.expert_scale", e.expert_scale, Any{});
  visit("experts.dense_layers", e.dense_layers, EachLayer{c.n_layers, /*may_be_empty=*/true});
}

template <class Visitor, class Config>
void visit_attention(Visitor& visit, Config& c) {
  visit("direction", c.direction, OneOf{kAttentionDirectionWords});
  visit("attn_scale", c.attn_scale, Positive{});
  visit("scale_by_inverse_layer", c.scale_by_inverse_layer, Any{});
  visit("score_soft_cap", c.score_soft_cap, NotNegative{});
  visit("qkv_clip", c.qkv_clip, NotNegative{});
  visit("qkv_bias", c.qkv_bias, Any{});
  visit("attn_out_bias", c.attn_out_bias, Any{});
  visit("attention_sinks", c.attention_sinks, Any{});
  visit("gated_heads", c.gated_heads, Any{});
  if (c.qk_norm) {
    visit("qk_norm.span", c.qk_norm->span, OneOf{kQkNormSpanWords});
    visit("qk_norm.kind", c.qk_norm->kind, OneOf{kQkNormKindWords});
    visit("qk_norm.bias", c.qk_norm->bias, Any{});
    visit("qk_norm.after_rotary", c.qk_norm->after_rotary, Any{});
    visit("qk_norm.layers", c.qk_norm->layers, EachLayer{c.n_layers, /*may_be_empty=*/true});
  }
  visit("value_norm", c.value_norm, Any{});
  if (c.query_growth) {
    visit("query_growth.growth", c.query_growth->growth, Positive{});
    visit("query_growth.tokens", c.query_growth->tokens, Positive{});
    visit("query_growth.offset", c.query_growth->offset, Between{0, 1});
    visit("query_growth.layers", c.query_growth->layers, EachLayer{c.n_layers, /*may_be_empty=*/true});
  }
  if (c.latent) {
    visit("latent.d_kv", c.latent->d_kv, Between{1, kMaxWidth});
    visit("latent.d_query", c.latent->d_query, Between{0, kMaxWidth});
    visit("latent.d_shared_key", c.latent->d_shared_key, Between{0, c.d_head - 1});
    visit("latent.d_value", c.latent->d_value, Between{1, kMaxWidth / std::max<std::int64_t>(1, c.n_heads)});
    visit("latent.eps", c.latent->eps, Positive{});
  }
  if (c.short_conv) {
    visit("short_conv.kernel", c.short_conv->kernel, Between{1, kMaxWidth});
    visit("short_conv.bias", c.short_conv->bias, Any{});
    visit("short_conv.layers", c.short_conv->layers, EachLayer{c.n_layers, /*may_be_empty=*/false});
  }
  if (c.delta_net) {
    auto& net = *c.delta_net;
    visit("delta_net.n_heads", net.n_heads, Between{1, kMaxHeads});
    visit("delta_net.n_key_heads", net.n_key_heads, DivisorOf{"delta_net.n_heads", net.n_heads});
    visit("delta_net.d_key", net.d_key, Between{1, kMaxWidth / std::max<std::int64_t>(1, net.n_heads)});
    visit("delta_net.d_value", net.d_value, Between{1, kMaxWidth / std::max<std::int64_t>(1, net.n_heads)});
    visit("delta_net.kernel", net.kernel, Between{2, kMaxWidth});
    visit("delta_net.doubled_beta", net.doubled_beta, Any{});
    visit("delta_net.norm_eps", net.norm_eps, Positive{});
    visit("delta_net.layers", net.layers, EachLayer{c.n_layers, /*may_be_empty=*/false});
  }
  if (c.window) {
    visit("window.kind", c.window->kind, OneOf{kWindowKindWords});
    visit("window.size", c.window->size, Between{1, kMaxWidth});
    visit("window.layers", c.window->layers, EachLayer{c.n_layers, /*may_be_empty=*/false});
  }
}

template <class Visitor, class Config>
void visit_unembedding(Visitor& visit, Config& c) {
  if (!c.unembedding) return;
  auto& unembedding = *c.unembedding;
  visit("unembedding.d_vocab", unembedding.d_vocab, Between{1, kMaxWidth});
  visit("unembedding.tied", unembedding.tied, Any{});
  visit("unembedding.bias", unembedding.bias, Any{});
  visit("unembedding.keeps_mean", unembedding.keeps_mean, Any{});
  visit("unembedding.in_scale", unembedding.in_scale, NotZero{});
  visit("unembedding.scale", unembedding.scale, NotZero{});
  visit("unembedding.soft_cap", unembedding.soft_cap, NotNegative{});
  visit("unembedding.mlm_head", unembedding.mlm_head, KnownActivation{.with_weights = false});
}

}  // namespace field

template <class Visitor, class Config>
void visit_fields(Visitor&& visit, Config& c) {
  using namespace field;
  visit("n_layers", c.n_layers, Between{1, kMaxLayers});
  if (c.encoder) {
    visit("encoder.n_layers", c.encoder->n_layers, Between{1, kMaxLayers});
    visit("encoder.decoder_start_token", c.encoder->decoder_start_token, Between{0, c.d_vocab - 1});
  }
  visit("d_model", c.d_model, Between{1, kMaxWidth});
  visit("n_ctx", c.n_ctx, Between{1, kMaxWidth});
  visit("n_heads", c.n_heads, Between{1, kMaxHeads});
  visit("d_head", c.d_head, Between{1, kMaxWidth / std::max<std::int64_t>(1, c.n_heads)});
  visit("n_kv_heads", c.n_kv_heads, DivisorOf{"n_heads", c.n_heads});
  if (c.full_heads) {
    visit("full_heads.d_head", c.full_heads->d_head,
          Between{1, kMaxWidth / std::max<std::int64_t>(1, c.n_heads)});
    visit("full_heads.n_kv_heads", c.full_heads->n_kv_heads, DivisorOf{"n_heads", c.n_heads});
  }
  if (c.shared_keys) {
    visit("shared_keys.layers", c.shared_keys->layers, Between{1, c.n_layers - 1});
    visit("shared_keys.d_mlp", c.shared_keys->d_mlp, c.has_mlp() ? Between{1, kMaxWidth} : Between{0, 0});
  }
  if (c.layer_input) visit("layer_input.width", c.layer_input->width, Between{1, kMaxWidth});
  visit("d_mlp", c.d_mlp, c.has_mlp() ? Between{1, kMaxWidth} : Between{0, 0});
  visit("d_vocab", c.d_vocab, Between{1, kMaxWidth});

  visit("norm", c.norm, OneOf{kNormKindWords});
  visit("norm_place", c.norm_place, OneOf{kNormPlaceWords});
  visit("pre_norm_layers", c.pre_norm_layers, EachLayer{c.n_layers, /*may_be_empty=*/true});
  visit("final_norm", c.final_norm, OneOf{kNormKindWords});
  visit("first_attention_norm", c.first_attention_norm, Any{});
  visit("norm_folded", c.norm_folded, Any{});
  visit("norm_bias", c.norm_bias, Any{});
  visit("norm_offset", c.norm_offset, Any{});
  visit("post_embedding_norm", c.post_embedding_norm, Any{});
  visit("embedding_sum_norm", c.embedding_sum_norm, Any{});
  visit("embedding_norm", c.embedding_norm, OneOf{kQkNormKindWords});
  visit("eps", c.eps, Positive{});

  visit("layout", c.layout, OneOf{kBlockLayoutWords});
  visit("mlp", c.mlp, OneOf{kMlpKindWords});
  visit("activation", c.activation, KnownActivation{});
  visit("mlp_norm", c.mlp_norm, Any{});
  visit("layer_scale", c.layer_scale, Any{});
  visit("mlp_bias", c.mlp_bias, Any{});
  visit("gated_bias_after_product", c.gated_bias_after_product, Any{});
  visit("gate_limit", c.gate_limit, NotNegative{});
  visit("up_offset", c.up_offset, Any{});
  visit_experts(visit, c);

  visit_attention(visit, c);
  visit_positions(visit, c);

  visit("token_types", c.token_types, Between{0, kMaxWidth});
  visit("embedding_scale", c.embedding_scale, NotZero{});
  visit_unembedding(visit, c);

  visit("default_prepend_bos", c.default_prepend_bos, Any{});
  visit("processing", c.processing, StepNames{});
  visit("dtype", c.dtype, FloatDtype{});
  visit("least_dtypes.choice_bias", c.least_dtypes.choice_bias, OneOf{kKeptInFloat32Words});
  visit("least_dtypes.router", c.least_dtypes.router, OneOf{kKeptInFloat32Words});
  visit("least_dtypes.norms", c.least_dtypes.norms, OneOf{kKeptInFloat32Words});
  visit("least_dtypes.mlp_out", c.least_dtypes.mlp_out, OneOf{kKeptInFloat32Words});
}

}  // namespace hooked
