#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/json.h"
#include "core/model_config_tables.h"
#include "hooked/core/error.h"
#include "hooked/core/model_config.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

template <class Value>
void expect(bool allowed, std::string_view field, const Value& value, std::string_view expected) {
  if (!allowed)
    throw ConfigError(field, fmt::format("value not allowed; expected {}, got {}", expected, value));
}

void expect_positive(std::string_view field, double value) {
  expect(std::isfinite(value) && value > 0, field, value, "a finite number above 0");
}

void expect_between(std::string_view field, std::int64_t value, std::int64_t most) {
  expect(value >= 1 && value <= most, field, value, fmt::format("1 to {}", most));
}

template <class E, std::size_t N>
void expect_known(std::string_view field, E value, const Word<E> (&words)[N]) {
  expect(value_of(words, word_of(words, value)).has_value(), field, static_cast<int>(value),
         fmt::format("one of {}", all_words(words)));
}

void check_known_values(const ModelConfig& c) {
  expect_known("norm", c.norm, kNormKindWords);
  expect_known("norm_place", c.norm_place, kNormPlaceWords);
  expect_known("final_norm", c.final_norm, kNormKindWords);
  expect_known("layout", c.layout, kBlockLayoutWords);
  expect_known("mlp", c.mlp, kMlpKindWords);
  expect_known("activation", c.activation, kActivationWords);
  expect_known("direction", c.direction, kAttentionDirectionWords);
  expect_known("experts.router", c.experts.router, kRouterKindWords);
  expect_known("experts.group_score", c.experts.group_score, kGroupScoreWords);
  expect_known("qk_norm", c.qk_norm, kQkNormWords);
  expect_known("qk_norm_kind", c.qk_norm_kind, kNormKindWords);
  expect_known("positions", c.positions, kPositionKindWords);
  expect_known("rotary.scaling.kind", c.rotary.scaling.kind, kRopeScalingKindWords);
  expect(parse_float_dtype(dtype_text(c.dtype)).has_value(), "dtype", dtype_text(c.dtype),
         "float32, float64, float16 or bfloat16");
}

void check_sizes(const ModelConfig& c) {
  expect_between("n_layers", c.n_layers, kMaxLayers);
  expect(c.n_encoder_layers >= 0 && c.n_encoder_layers <= kMaxLayers, "n_encoder_layers", c.n_encoder_layers,
         fmt::format("1 to {}, or 0 for no encoder", kMaxLayers));
  expect_between("d_model", c.d_model, kMaxWidth);
  expect_between("n_ctx", c.n_ctx, kMaxWidth);
  expect_between("n_heads", c.n_heads, kMaxHeads);
  expect_between("d_head", c.d_head, kMaxWidth / c.n_heads);
  expect(c.n_kv_heads >= 1 && c.n_kv_heads <= c.n_heads && c.n_heads % c.n_kv_heads == 0, "n_kv_heads",
         c.n_kv_heads, fmt::format("a divisor of n_heads = {}", c.n_heads));
  if (c.has_mlp()) {
    expect_between("d_mlp", c.d_mlp, kMaxWidth);
  } else {
    expect(c.d_mlp == 0, "d_mlp", c.d_mlp, "0, because mlp is none");
  }
  expect_between("d_vocab", c.d_vocab, kMaxWidth);
  expect(c.d_vocab_out >= 0 && c.d_vocab_out <= kMaxWidth, "d_vocab_out", c.d_vocab_out,
         fmt::format("1 to {}, or 0 for no unembedding", kMaxWidth));
  if (c.experts.n_experts != 0) {
    expect_between("experts.n_experts", c.experts.n_experts,
                   std::min(kMaxExperts, kMaxExpertModules / c.n_layers));
    expect_between("experts.d_expert", c.experts.d_expert, kMaxWidth);
    expect(c.experts.d_shared >= 0 && c.experts.d_shared <= kMaxWidth, "experts.d_shared", c.experts.d_shared,
           fmt::format("0 to {}", kMaxWidth));
  }
  if (c.latent.d_kv != 0) {
    expect_between("latent.d_kv", c.latent.d_kv, kMaxWidth);
    expect(c.latent.d_query >= 0 && c.latent.d_query <= kMaxWidth, "latent.d_query", c.latent.d_query,
           fmt::format("1 to {}, or 0 for none", kMaxWidth));
    expect_between("latent.d_value", c.latent.d_value, kMaxWidth / c.n_heads);
  }
  // In floating point, because the product of sizes that are each allowed can exceed 64 bits.
  const double weights =
      static_cast<double>(2 * c.n_layers + c.n_encoder_layers) * static_cast<double>(c.d_model) *
      (4.0 * static_cast<double>(c.n_heads * std::max(c.d_head, c.value_dim())) +
       3.0 * static_cast<double>(c.d_mlp) +
       3.0 * static_cast<double>(c.experts.n_experts) * static_cast<double>(c.experts.d_expert));
  expect(weights < kMaxParameters, "n_layers", c.n_layers,
         fmt::format("sizes that ask for fewer than {:.3g} parameters in all", kMaxParameters));
}

void check_norms(const ModelConfig& c) {
  expect_positive("eps", c.eps);
  const auto place = word_of(kNormPlaceWords, c.norm_place);
  const auto final_norm = word_of(kNormKindWords, c.final_norm);
  if (c.norm == NormKind::none) {
    expect(c.norm_place == NormPlace::pre, "norm_place", place, "pre, because norm is none");
    expect(c.final_norm == NormKind::none, "final_norm", final_norm, "none, because norm is none");
    expect(!c.norm_folded, "norm_folded", c.norm_folded,
           "false, because norm is none: there is nothing to fold");
  }
  if (c.norm == NormKind::rms_norm) {
    expect(c.final_norm != NormKind::layer_norm, "final_norm", final_norm,
           "RMS or none, because norm is RMS");
  }
  if (c.norm_place == NormPlace::post) {
    expect(c.final_norm == NormKind::none, "final_norm", final_norm, "none, because norm_place is post");
    expect(!c.norm_folded, "norm_folded", c.norm_folded,
           "false, because norm_place is post: the stream itself is the norm's output");
  }
  expect(!c.norm_folded || c.norm_place != NormPlace::stream, "norm_folded", c.norm_folded,
         "false, because norm_place is stream: the stream itself is the norm's output");
  expect(!c.norm_offset || c.norm != NormKind::none, "norm_offset", c.norm_offset,
         "false, because norm is none and there are no weights to mean 1 + w");
}

void check_blocks(const ModelConfig& c) {
  const auto layout = word_of(kBlockLayoutWords, c.layout);
  const auto activation = activation_name(c.activation);
  if (c.parallel()) {
    expect(c.has_mlp(), "layout", layout, "serial, because mlp is none");
    expect(c.norm_place == NormPlace::pre, "layout", layout,
           fmt::format("serial, because norm_place is {}", word_of(kNormPlaceWords, c.norm_place)));
  }
  expect(c.mlp != MlpKind::gated || c.activation != Activation::solu, "activation", activation,
         "another one than solu, because mlp is gated: solu mixes the neurons it would gate");
  if (c.mlp_norm) {
    expect(c.mlp == MlpKind::plain, "mlp_norm", c.mlp_norm,
           fmt::format("false, because mlp is {}", word_of(kMlpKindWords, c.mlp)));
    expect(c.activation == Activation::solu, "mlp_norm", c.mlp_norm,
           fmt::format("false, because activation is {}: only solu has a norm over the neurons", activation));
    expect(c.norm == NormKind::layer_norm, "mlp_norm", c.mlp_norm,
           fmt::format("false, because norm is {}: the norm over the neurons is a LayerNorm",
                       word_of(kNormKindWords, c.norm)));
  }
  expect(c.mlp != MlpKind::none || c.activation != Activation::xielu, "activation", activation,
         "another one than xielu, because mlp is none and nothing would hold its numbers");
  expect(!c.gated_bias_after_product || c.mlp == MlpKind::gated, "gated_bias_after_product",
         c.gated_bias_after_product, fmt::format("false, because mlp is {}", word_of(kMlpKindWords, c.mlp)));
}

void check_layer_flags(const ModelConfig& c, std::string_view field, const std::vector<bool>& layers) {
  if (layers.empty()) return;
  expect(static_cast<std::int64_t>(layers.size()) == c.n_layers, field, layers.size(),
         fmt::format("one entry for each of the {} layers", c.n_layers));
  expect(std::find(layers.begin(), layers.end(), true) != layers.end(), field, "only false",
         "true for at least one layer, or an empty list");
}

void check_gated_product(const ModelConfig& c) {
  const auto kind = word_of(kMlpKindWords, c.mlp);
  expect_positive("swish_beta", c.swish_beta);
  expect(c.activation == Activation::swish || c.swish_beta == 1.0, "swish_beta", c.swish_beta,
         fmt::format("1, because activation is {}", activation_name(c.activation)));
  expect(std::isfinite(c.gate_limit) && c.gate_limit >= 0, "gate_limit", c.gate_limit,
         "a finite number above 0, or 0 for none");
  expect(c.gate_limit == 0 || c.mlp == MlpKind::gated, "gate_limit", c.gate_limit,
         fmt::format("0, because mlp is {}", kind));
  expect(!c.up_offset || c.mlp == MlpKind::gated, "up_offset", c.up_offset,
         fmt::format("false, because mlp is {}", kind));
}

void check_router(const ExpertConfig& e) {
  const auto kind = word_of(kRouterKindWords, e.router);
  const bool mixer = e.router == RouterKind::sparse_mixer;
  if (mixer) {
    expect(e.per_token == 2, "experts.per_token", e.per_token, "2, because the router is sparse_mixer");
    expect(std::isfinite(e.mixer_tolerance) && e.mixer_tolerance >= 0, "experts.mixer_tolerance",
           e.mixer_tolerance, "a finite number, at least 0");
  } else {
    expect(e.mixer_tolerance == 0, "experts.mixer_tolerance", e.mixer_tolerance,
           fmt::format("0, because the router is {}", kind));
  }
  const bool weighs_all =
      e.router == RouterKind::softmax_then_choose || e.router == RouterKind::sigmoid_then_choose;
  expect(!e.choice_bias || weighs_all, "experts.choice_bias", e.choice_bias,
         fmt::format("false, because the router is {}", kind));
  expect(!e.renormalised || weighs_all, "experts.renormalised", e.renormalised,
         fmt::format("false, because the router is {}", kind));
  expect(std::isfinite(e.least_sum) && e.least_sum >= 0, "experts.least_sum", e.least_sum,
         "a finite number, at least 0");
  expect(e.renormalised || e.least_sum == 0, "experts.least_sum", e.least_sum,
         "0, because experts.renormalised is false");
}

void check_expert_groups(const ExpertConfig& e) {
  const bool weighs_all =
      e.router == RouterKind::softmax_then_choose || e.router == RouterKind::sigmoid_then_choose;
  expect(e.n_groups >= 1 && e.n_experts % e.n_groups == 0, "experts.n_groups", e.n_groups,
         fmt::format("a divisor of experts.n_experts = {}", e.n_experts));
  expect(e.n_groups == 1 || weighs_all, "experts.n_groups", e.n_groups,
         fmt::format("1, because the router is {}", word_of(kRouterKindWords, e.router)));
  expect(e.groups_per_token >= 1 && e.groups_per_token <= e.n_groups, "experts.groups_per_token",
         e.groups_per_token, fmt::format("1 to experts.n_groups = {}", e.n_groups));
  const std::int64_t in_group = e.n_experts / e.n_groups;
  expect(e.per_token <= e.groups_per_token * in_group, "experts.groups_per_token", e.groups_per_token,
         fmt::format("enough groups of {} for experts.per_token = {}", in_group, e.per_token));
  const auto score = word_of(kGroupScoreWords, e.group_score);
  expect(e.n_groups > 1 || e.group_score == GroupScore::best, "experts.group_score", score,
         "best (the default), because experts.n_groups is 1");
  expect(e.group_score != GroupScore::best_two || in_group >= 2, "experts.group_score", score,
         "best, because a group has one expert");
}

void check_experts(const ModelConfig& c) {
  const ExpertConfig& e = c.experts;
  if (e.n_experts == 0) {
    expect(e == ExpertConfig(), "experts", "other values",
           "the default values, because experts.n_experts is 0 and nothing would read them");
    return;
  }
  expect(e.per_token >= 1 && e.per_token <= e.n_experts, "experts.per_token", e.per_token,
         fmt::format("1 to experts.n_experts = {}", e.n_experts));
  expect(c.mlp == MlpKind::gated, "mlp", word_of(kMlpKindWords, c.mlp),
         "gated, because the model has experts");
  expect(c.activation != Activation::xielu, "activation", activation_name(c.activation),
         "another one than xielu, because the model has experts");
  expect(!c.gated_bias_after_product, "gated_bias_after_product", c.gated_bias_after_product,
         "false, because the model has experts");
  check_router(e);
  check_expert_groups(e);
  expect(!e.shared_gate || e.d_shared > 0, "experts.shared_gate", e.shared_gate,
         "false, because experts.d_shared is 0");
  expect(!e.shared_gate_bias || e.shared_gate, "experts.shared_gate_bias", e.shared_gate_bias,
         "false, because experts.shared_gate is false");
  if (e.dense_layers.empty()) {
    expect(c.d_mlp == e.d_expert, "d_mlp", c.d_mlp,
           fmt::format("experts.d_expert = {}, because every MLP is a mixture of experts", e.d_expert));
    return;
  }
  check_layer_flags(c, "experts.dense_layers", e.dense_layers);
  expect(std::find(e.dense_layers.begin(), e.dense_layers.end(), false) != e.dense_layers.end(),
         "experts.dense_layers", "only true", "false for at least one layer, or no experts");
}

void check_qk_norm(const ModelConfig& c) {
  const auto kind = word_of(kNormKindWords, c.qk_norm_kind);
  if (c.qk_norm == QkNorm::none) {
    expect(c.qk_norm_kind == NormKind::rms_norm, "qk_norm_kind", kind,
           "RMS (the default), because qk_norm is none");
  }
  expect(c.qk_norm_kind != NormKind::none, "qk_norm_kind", kind, "RMS or LN");
  expect(!c.qk_norm_bias || c.qk_norm_kind == NormKind::layer_norm, "qk_norm_bias", c.qk_norm_bias,
         "false, because only LayerNorms of queries and keys have a bias");
}

void check_latents(const ModelConfig& c) {
  const LatentConfig& latent = c.latent;
  if (!c.latent_attention()) {
    expect(latent == LatentConfig(), "latent", "other values",
           "the default values, because latent.d_kv is 0 and nothing would read them");
    return;
  }
  expect(latent.d_shared_key >= 0 && latent.d_shared_key < c.d_head, "latent.d_shared_key",
         latent.d_shared_key, fmt::format("0 to d_head - 1 = {}", c.d_head - 1));
  expect_positive("latent.eps", latent.eps);
  expect(!c.grouped_query(), "n_kv_heads", c.n_kv_heads,
         fmt::format("n_heads = {}, because attention has latents", c.n_heads));
  expect(c.positions != PositionKind::shortformer, "positions", word_of(kPositionKindWords, c.positions),
         "another kind than shortformer, because keys and values are made from one latent");
}

void check_attention(const ModelConfig& c) {
  check_qk_norm(c);
  check_latents(c);
  expect(std::isfinite(c.qkv_clip) && c.qkv_clip >= 0, "qkv_clip", c.qkv_clip,
         "a finite number above 0, or 0 for none");
  expect_positive("attn_scale", c.attn_scale);
  expect(std::isfinite(c.score_soft_cap) && c.score_soft_cap >= 0, "score_soft_cap", c.score_soft_cap,
         "a finite number above 0, or 0 for none");
  if (c.windowed_layers.empty()) {
    expect(c.window == 0, "window", c.window, "0, because windowed_layers is empty");
    return;
  }
  check_layer_flags(c, "windowed_layers", c.windowed_layers);
  expect_between("window", c.window, kMaxWidth);
}

void check_longrope(const RopeScaling& scaling, std::int64_t rotary_dim) {
  const bool longrope = scaling.kind == RopeScalingKind::longrope;
  for (const auto& [field, factors] : {std::pair{"rotary.scaling.short_factors", &scaling.short_factors},
                                       std::pair{"rotary.scaling.long_factors", &scaling.long_factors}}) {
    const std::int64_t wanted = longrope ? rotary_dim / 2 : 0;
    expect(
        static_cast<std::int64_t>(factors->size()) == wanted, field, factors->size(),
        fmt::format("{} numbers: one for each pair of turned dimensions under longrope, else none", wanted));
    for (const double factor : *factors) expect_positive(field, factor);
  }
  if (!scaling.long_attention_factor) return;
  expect_positive("rotary.scaling.long_attention_factor", *scaling.long_attention_factor);
  expect(longrope, "rotary.scaling.long_attention_factor", *scaling.long_attention_factor,
         fmt::format("none, because the scaling kind {} does not use it",
                     word_of(kRopeScalingKindWords, scaling.kind)));
}

// A number that the scaling's kind does not use has to keep its default: a value there would be ignored.
void check_rope_scaling(const RopeScaling& scaling) {
  using Kind = RopeScalingKind;
  const RopeScaling defaults;
  const auto expect_unused = [&](std::string_view field, auto value, auto fallback) {
    expect(value == fallback, field, value,
           fmt::format("{} (the default), because the scaling kind {} does not use it", fallback,
                       word_of(kRopeScalingKindWords, scaling.kind)));
  };
  const auto check = [&](bool used, std::string_view field, double RopeScaling::*member) {
    if (used) {
      expect_positive(field, scaling.*member);
    } else {
      expect_unused(field, scaling.*member, defaults.*member);
    }
  };
  const bool llama3 = scaling.kind == Kind::llama3;
  const bool yarn = scaling.kind == Kind::yarn;
  const bool longrope = scaling.kind == Kind::longrope;
  check(scaling.kind != Kind::none && !longrope, "rotary.scaling.factor", &RopeScaling::factor);
  check(llama3, "rotary.scaling.low_freq_factor", &RopeScaling::low_freq_factor);
  check(llama3, "rotary.scaling.high_freq_factor", &RopeScaling::high_freq_factor);
  check(llama3 || yarn || scaling.depends_on_length(), "rotary.scaling.original_n_ctx",
        &RopeScaling::original_n_ctx);
  check(yarn || longrope, "rotary.scaling.attention_factor", &RopeScaling::attention_factor);
  check(yarn, "rotary.scaling.beta_fast", &RopeScaling::beta_fast);
  check(yarn, "rotary.scaling.beta_slow", &RopeScaling::beta_slow);
  if (!yarn) expect_unused("rotary.scaling.truncate", scaling.truncate, defaults.truncate);

  if (scaling.kind == Kind::dynamic) {
    expect(scaling.factor >= 1, "rotary.scaling.factor", scaling.factor,
           "at least 1, because the scaling kind is dynamic");
  }
  if (scaling.kind == Kind::linear) {
    expect(scaling.factor != 1.0, "rotary.scaling.factor", scaling.factor,
           "another number than 1, which scales nothing: the kind is then none");
  }
  if (llama3) {
    expect(scaling.high_freq_factor > scaling.low_freq_factor, "rotary.scaling.high_freq_factor",
           scaling.high_freq_factor, fmt::format("more than low_freq_factor = {}", scaling.low_freq_factor));
  }
  if (yarn) {
    expect(scaling.beta_fast >= scaling.beta_slow, "rotary.scaling.beta_fast", scaling.beta_fast,
           fmt::format("at least beta_slow = {}", scaling.beta_slow));
  }
}

void check_rotary(const ModelConfig& c) {
  const auto dim = c.rotary_dim();
  expect(c.rotary.dim >= 0 && dim <= c.d_head && dim % 2 == 0, "rotary.dim", c.rotary.dim,
         fmt::format("an even number up to d_head = {} (0 means all of d_head, which must then be even)",
                     c.d_head));
  expect(!c.rotary.at_end || dim < c.d_head, "rotary.at_end", c.rotary.at_end,
         "false, because rotary turns all of d_head");
  expect_positive("rotary.base", c.rotary.base);
  if (c.rotary.local_base) {
    expect_positive("rotary.local_base", *c.rotary.local_base);
    expect(!c.windowed_layers.empty(), "rotary.local_base", *c.rotary.local_base,
           "none, because no layer attends through a window");
  }
  check_rope_scaling(c.rotary.scaling);
  check_longrope(c.rotary.scaling, dim);
  expect(c.rotary.scaling.kind != RopeScalingKind::dynamic || dim > 2, "rotary.dim", c.rotary.dim,
         "more than 2, because the scaling kind is dynamic");
  check_layer_flags(c, "unrotated_layers", c.unrotated_layers);
  if (c.rotary.scaling.kind == RopeScalingKind::yarn) {
    expect(c.rotary.base > 1, "rotary.base", c.rotary.base, "more than 1, because the scaling kind is yarn");
  }
}

void check_relative(const ModelConfig& c) {
  const std::int64_t directions = c.has_encoder() || c.bidirectional(c.main_stack()) ? 2 : 1;
  expect(c.relative.buckets >= 2 * directions && c.relative.buckets <= kMaxWidth, "relative.buckets",
         c.relative.buckets, fmt::format("{} to {}", 2 * directions, kMaxWidth));
  expect(c.relative.max_distance > c.relative.buckets / 2 && c.relative.max_distance <= kMaxWidth,
         "relative.max_distance", c.relative.max_distance,
         fmt::format("more than half of relative.buckets = {}, at most {}", c.relative.buckets, kMaxWidth));
}

void check_positions(const ModelConfig& c) {
  const auto kind = word_of(kPositionKindWords, c.positions);
  if (c.positions == PositionKind::relative) {
    check_relative(c);
  } else {
    expect(c.relative == RelativeConfig(), "relative", "other values",
           fmt::format("the default values, because positions is {} and nothing would read them", kind));
  }
  if (c.positions == PositionKind::rotary) {
    check_rotary(c);
  } else {
    expect(c.rotary == RotaryConfig(), "rotary", "other values",
           fmt::format("the default values, because positions is {} and nothing would read them", kind));
    expect(c.unrotated_layers.empty(), "unrotated_layers", c.unrotated_layers.size(),
           fmt::format("an empty list, because positions is {}", kind));
  }
  if (c.positions == PositionKind::alibi) {
    expect(!c.alibi_in_bfloat16 || c.direction == AttentionDirection::causal, "alibi_in_bfloat16", true,
           "false, because direction is bidirectional and keys ahead have no bias");
    expect(static_cast<std::int64_t>(c.alibi_slopes.size()) == c.n_heads, "alibi_slopes",
           c.alibi_slopes.size(), fmt::format("one slope for each of the {} heads", c.n_heads));
    for (const double slope : c.alibi_slopes)
      expect(std::isfinite(slope), "alibi_slopes", slope, "finite numbers");
  } else {
    expect(c.alibi_slopes.empty(), "alibi_slopes", c.alibi_slopes.size(),
           fmt::format("no slopes, because positions is {}", kind));
    expect(!c.alibi_in_bfloat16, "alibi_in_bfloat16", true,
           fmt::format("false, because positions is {}", kind));
    expect(!c.alibi_scaled, "alibi_scaled", true, fmt::format("false, because positions is {}", kind));
  }
}

void check_embedding(const ModelConfig& c) {
  expect(!c.embedding_sum_norm || !c.post_embedding_norm, "embedding_sum_norm", c.embedding_sum_norm,
         "false, because post_embedding_norm already norms the embedding");
  expect(c.token_types >= 0 && c.token_types <= kMaxWidth, "token_types", c.token_types,
         fmt::format("1 to {}, or 0 for none", kMaxWidth));
  expect(c.token_types == 0 || c.embedding_sum_norm, "token_types", c.token_types,
         "0, because embedding_sum_norm is false: types are a part of the normed sum");
}

// What belongs to the unembedding is at its default without one.
void check_no_unembedding(const ModelConfig& c) {
  constexpr std::string_view kFalse = "false, because d_vocab_out is 0 and there is no unembedding";
  constexpr std::string_view kNone = "none, because d_vocab_out is 0 and there is no unembedding";
  expect(c.final_norm == NormKind::none, "final_norm", word_of(kNormKindWords, c.final_norm), kNone);
  expect(!c.tied_unembedding, "tied_unembedding", true, kFalse);
  expect(!c.unembed_bias, "unembed_bias", true, kFalse);
  expect(!c.mlm_head, "mlm_head", activation_name(c.mlm_head.value_or(Activation::relu)), kNone);
  for (const auto& [field, scale] :
       {std::pair{"unembed_in_scale", c.unembed_in_scale}, std::pair{"logit_scale", c.logit_scale}}) {
    expect(scale == 1.0, field, scale, "1, because d_vocab_out is 0 and there is no unembedding");
  }
  expect(c.logit_soft_cap == 0.0, "logit_soft_cap", c.logit_soft_cap,
         "0, because d_vocab_out is 0 and there is no unembedding");
}

void check_output(const ModelConfig& c) {
  if (!c.has_unembedding()) check_no_unembedding(c);
  if (c.mlm_head) {
    expect_known("mlm_head", *c.mlm_head, kActivationWords);
    expect(*c.mlm_head != Activation::xielu, "mlm_head", activation_name(*c.mlm_head),
           "another activation than xielu, whose numbers only MLPs hold");
  }
  expect(!c.tied_unembedding || c.d_vocab_out == c.d_vocab, "tied_unembedding", c.tied_unembedding,
         fmt::format("false, because d_vocab_out = {} is not d_vocab = {}", c.d_vocab_out, c.d_vocab));
  for (const auto& [field, scale] :
       {std::pair{"embedding_scale", c.embedding_scale}, std::pair{"unembed_in_scale", c.unembed_in_scale},
        std::pair{"logit_scale", c.logit_scale}}) {
    expect(std::isfinite(scale) && scale != 0, field, scale, "a finite number other than 0");
  }
  expect(std::isfinite(c.logit_soft_cap) && c.logit_soft_cap >= 0, "logit_soft_cap", c.logit_soft_cap,
         "a finite number above 0, or 0 for none");
  std::set<std::string_view> steps;
  for (const auto& step : c.processing) {
    expect(!step.empty() && steps.insert(step).second, "processing", fmt::format("\"{}\"", printable(step)),
           "the names of processing steps, each once");
  }
}

// Both stacks are made by the one description of a block, so what has no meaning in one of them is refused.
void check_encoder(const ModelConfig& c) {
  if (!c.has_encoder()) {
    expect(!c.decoder_start_token, "decoder_start_token", c.decoder_start_token.value_or(0),
           "none, because n_encoder_layers is 0");
    return;
  }
  constexpr std::string_view kBecause = "because there is an encoder (n_encoder_layers)";
  const auto expect_plain = [&](bool allowed, std::string_view field, const auto& value,
                                std::string_view expected) {
    expect(allowed, field, value, fmt::format("{}, {}", expected, kBecause));
  };
  expect_plain(c.direction == AttentionDirection::causal, "direction",
               word_of(kAttentionDirectionWords, c.direction), "causal, which the decoder is");
  expect_plain(c.positions == PositionKind::relative, "positions", word_of(kPositionKindWords, c.positions),
               word_of(kPositionKindWords, PositionKind::relative));
  expect_plain(c.norm != NormKind::none, "norm", word_of(kNormKindWords, c.norm), "LN or RMS");
  expect_plain(c.norm_place == NormPlace::pre, "norm_place", word_of(kNormPlaceWords, c.norm_place), "pre");
  expect_plain(!c.norm_folded, "norm_folded", c.norm_folded, "false");
  expect_plain(!c.parallel(), "layout", word_of(kBlockLayoutWords, c.layout), "serial");
  expect_plain(c.has_mlp(), "mlp", word_of(kMlpKindWords, c.mlp), "plain or gated");
  expect_plain(c.experts.n_experts == 0, "experts.n_experts", c.experts.n_experts, "0");
  expect_plain(c.windowed_layers.empty(), "windowed_layers", c.windowed_layers.size(), "an empty list");
  expect_plain(c.qk_norm == QkNorm::none, "qk_norm", word_of(kQkNormWords, c.qk_norm), "none");
  expect_plain(!c.latent_attention(), "latent.d_kv", c.latent.d_kv, "0");
  expect_plain(!c.attention_sinks, "attention_sinks", c.attention_sinks, "false");
  expect_plain(c.score_soft_cap == 0, "score_soft_cap", c.score_soft_cap, "0");
  expect_plain(c.qkv_clip == 0, "qkv_clip", c.qkv_clip, "0");
  expect_plain(!c.scale_by_inverse_layer, "scale_by_inverse_layer", c.scale_by_inverse_layer, "false");
  expect_plain(!c.embedding_sum_norm, "embedding_sum_norm", c.embedding_sum_norm, "false");
  expect_plain(!c.mlm_head, "mlm_head", activation_name(c.mlm_head.value_or(Activation::relu)), "none");
  expect_plain(c.processing.empty(), "processing", c.processing.size(), "an empty list");
  if (!c.decoder_start_token) return;
  expect(*c.decoder_start_token >= 0 && *c.decoder_start_token < c.d_vocab, "decoder_start_token",
         *c.decoder_start_token, fmt::format("0 to {}", c.d_vocab - 1));
}

}  // namespace

void ModelConfig::validate() const {
  check_known_values(*this);
  check_sizes(*this);
  check_encoder(*this);
  check_norms(*this);
  check_blocks(*this);
  check_gated_product(*this);
  check_experts(*this);
  check_attention(*this);
  check_positions(*this);
  check_embedding(*this);
  check_output(*this);
}

}  // namespace hooked
