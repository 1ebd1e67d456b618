#include "core/model_config_rules.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/model_config_words.h"

namespace hooked {
namespace {

constexpr double kMaxParameters = 1e18;  // their bytes still fit into 64 bits

void check_parameters(const ModelConfig& c) {
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  // In floating point, because the product of sizes that are each allowed can exceed 64 bits.
  const double experts = c.experts ? number(c.experts->n_experts) * number(c.experts->d_expert) : 0.0;
  const double weights =
      number(2 * c.n_layers + c.n_encoder_layers()) * number(c.d_model) *
      (4.0 *
           number(c.n_heads * std::max({c.d_head, c.value_dim(0), c.head_width_of(/*in_windowed=*/false)})) +
       3.0 * number(std::max(c.d_mlp, c.mlp_width(c.n_layers - 1))) + 3.0 * experts +
       (c.layer_input ? number(c.layer_input->width) * (3.0 + number(c.d_vocab)) : 0.0) +
       (c.short_conv ? 4.0 * number(c.d_model) + number(c.short_conv->kernel) : 0.0) +
       (c.delta_net ? number(c.delta_net->d_qkv()) * number(c.delta_net->kernel + 1) +
                          2.0 * number(c.delta_net->n_heads * (c.delta_net->d_value + 1))
                    : 0.0));
  expect(weights < kMaxParameters, "n_layers", c.n_layers,
         fmt::format("sizes that ask for fewer than {:.3g} parameters in all", kMaxParameters));
}

void check_norms(const ModelConfig& c) {
  const auto place = word_of(kNormPlaceWords, c.norm_place);
  const auto final_norm = word_of(kNormKindWords, c.final_norm);
  if (c.norm == NormKind::none) {
    expect(c.norm_place == NormPlace::pre, "norm_place", place, "pre, because norm is none");
    expect(c.final_norm == NormKind::none, "final_norm", final_norm, "none, because norm is none");
    expect(!c.norm_folded, "norm_folded", c.norm_folded,
           "false, because norm is none: there is nothing to fold");
    expect(!c.norm_offset, "norm_offset", c.norm_offset,
           "false, because norm is none and there are no weights to mean 1 + w");
  }
  expect(c.norm != NormKind::rms_norm || c.final_norm != NormKind::layer_norm, "final_norm", final_norm,
         "RMS or none, because norm is RMS");
  expect(c.norm_place != NormPlace::post || c.final_norm == NormKind::none, "final_norm", final_norm,
         "none, because norm_place is post");
  const bool can_lack_first = c.norm != NormKind::none && c.norm_place == NormPlace::pre &&
                              c.layout == BlockLayout::serial && !c.has_encoder();
  expect(c.first_attention_norm || can_lack_first, "first_attention_norm", c.first_attention_norm,
         "true (the default), because only serial blocks of one stack with norms before their sublayers may "
         "lack it");
  if (!c.pre_norm_layers.empty()) {
    expect(c.norm_place == NormPlace::output, "norm_place", place, "output, because of pre_norm_layers");
    expect(std::ranges::find(c.pre_norm_layers, false) != c.pre_norm_layers.end(), "pre_norm_layers",
           "only true", "false for at least one layer, or norm_place pre");
  }
  expect(!c.norm_folded || !c.norms_stream(), "norm_folded", c.norm_folded,
         fmt::format("false, because norm_place is {}: the stream itself is the norm's output", place));
  expect(!c.layer_scale || c.norm_place != NormPlace::post, "layer_scale", c.layer_scale,
         "false, because norm_place is post and a block ends with a norm");
  if (c.qk_norm) {
    expect(!c.qk_norm->bias || c.qk_norm->kind == NormKind::layer_norm, "qk_norm.bias", c.qk_norm->bias,
           "false, because only LayerNorms of queries and keys have a bias");
    expect(!c.qk_norm->after_rotary || c.rotary() != nullptr, "qk_norm.after_rotary", c.qk_norm->after_rotary,
           "false, because positions are not rotary");
  }
}

void check_mlp(const ModelConfig& c) {
  const auto layout = word_of(kBlockLayoutWords, c.layout);
  const auto activation = activation_name(c.activation);
  const auto kind = word_of(kMlpKindWords, c.mlp);
  if (c.parallel()) {
    expect(c.has_mlp(), "layout", layout, "serial, because mlp is none");
    expect(c.norm_place == NormPlace::pre, "layout", layout,
           fmt::format("serial, because norm_place is {}", word_of(kNormPlaceWords, c.norm_place)));
  }
  expect(c.mlp != MlpKind::gated || c.activation.kind() != Activation::solu, "activation", activation,
         "another one than solu, because mlp is gated: solu mixes the neurons it would gate");
  expect(c.mlp != MlpKind::none || c.activation.kind() != Activation::xielu, "activation", activation,
         "another one than xielu, because mlp is none and nothing would hold its numbers");
  if (c.mlp_norm) {
    expect(
        c.mlp == MlpKind::plain && c.activation.kind() == Activation::solu && c.norm == NormKind::layer_norm,
        "mlp_norm", c.mlp_norm,
        fmt::format("false, because mlp is {}, activation {} and norm {}: only a plain MLP with solu in a "
                    "model of LayerNorms has a norm over its neurons",
                    kind, activation, word_of(kNormKindWords, c.norm)));
  }
  if (c.mlp == MlpKind::gated) return;
  const auto because = [&](std::string_view off) { return fmt::format("{}, because mlp is {}", off, kind); };
  expect(!c.gated_bias_after_product, "gated_bias_after_product", true, because("false"));
  expect(c.gate_limit == 0, "gate_limit", c.gate_limit, because("0"));
  expect(!c.up_offset, "up_offset", true, because("false"));
}

void check_router(const Experts& e) {
  const auto kind = word_of(kRouterKindWords, e.router);
  const auto because = [&](std::string_view off) {
    return fmt::format("{}, because the router is {}", off, kind);
  };
  const bool mixer = e.router == RouterKind::sparse_mixer;
  expect(!mixer || e.per_token == 2, "experts.per_token", e.per_token, because("2"));
  expect(mixer || e.mixer_tolerance == 0, "experts.mixer_tolerance", e.mixer_tolerance, because("0"));
  if (mixer || e.router == RouterKind::choose_then_softmax) {  // which do not weight all experts
    expect(!e.choice_bias, "experts.choice_bias", e.choice_bias, because("false"));
    expect(!e.renormalised, "experts.renormalised", e.renormalised, because("false"));
    expect(e.n_groups == 1, "experts.n_groups", e.n_groups, because("1"));
  }
  expect(e.renormalised || e.least_sum == 0, "experts.least_sum", e.least_sum,
         "0, because experts.renormalised is false");
  expect(e.renormalised || e.added_to_sum == 0, "experts.added_to_sum", e.added_to_sum,
         "0, because experts.renormalised is false");
  expect(e.least_sum == 0 || e.added_to_sum == 0, "experts.added_to_sum", e.added_to_sum,
         fmt::format("0, because experts.least_sum is {}", e.least_sum));
  const std::int64_t in_group = e.n_experts / e.n_groups;
  expect(e.per_token <= e.groups_per_token * in_group, "experts.groups_per_token", e.groups_per_token,
         fmt::format("enough groups of {} for experts.per_token = {}", in_group, e.per_token));
  expect(e.group_score == GroupScore::best || (e.n_groups > 1 && in_group > 1), "experts.group_score",
         word_of(kGroupScoreWords, e.group_score),
         "best (the default), because there are no groups of several experts");
}

void check_experts(const ModelConfig& c) {
  const Experts& e = *c.experts;
  expect(c.mlp == MlpKind::gated, "mlp", word_of(kMlpKindWords, c.mlp),
         "gated, because the model has experts");
  expect(c.activation.kind() != Activation::xielu, "activation", activation_name(c.activation),
         "another one than xielu, because the model has experts");
  expect(!c.gated_bias_after_product, "gated_bias_after_product", c.gated_bias_after_product,
         "false, because the model has experts");
  check_router(e);
  expect(!e.shared_gate || e.d_shared > 0, "experts.shared_gate", e.shared_gate,
         "false, because experts.d_shared is 0");
  expect(!e.shared_gate_bias || e.shared_gate, "experts.shared_gate_bias", e.shared_gate_bias,
         "false, because experts.shared_gate is false");
  if (e.own_norms) {
    expect(e.d_shared > 0, "experts.d_shared", e.d_shared, "at least 1, because of experts.own_norms");
    expect(c.norm == NormKind::rms_norm && c.norm_place == NormPlace::both, "experts.own_norms", true,
           "false, because norm is not RMS with norm_place both");
  }
  if (e.dense_layers.empty()) {
    expect(c.d_mlp == e.d_expert, "d_mlp", c.d_mlp,
           fmt::format("experts.d_expert = {}, because every MLP is a mixture of experts", e.d_expert));
    return;
  }
  expect(std::ranges::find(e.dense_layers, false) != e.dense_layers.end(), "experts.dense_layers",
         "only true", "false for at least one layer, or no experts");
}

void check_positions(const ModelConfig& c) {
  if (c.latent) {
    expect(!c.grouped_query(), "n_kv_heads", c.n_kv_heads,
           fmt::format("n_heads = {}, because attention has latents", c.n_heads));
    expect(!c.value_norm, "value_norm", c.value_norm, "false, because values are made from latents");
    expect(!c.shortformer(), "positions", word_of(c.positions),
           "another kind than shortformer, because keys and values are made from one latent");
  }
  if (const AlibiPositions* alibi = c.alibi()) {
    expect(!alibi->in_bfloat16 || c.direction == AttentionDirection::causal, "alibi.in_bfloat16", true,
           "false, because direction is bidirectional and keys ahead have no bias");
  }
  const RotaryPositions* rotary = c.rotary();
  if (rotary == nullptr) return;
  expect(!rotary->at_end || (rotary->dim > 0 && rotary->dim < c.d_head), "rotary.at_end", rotary->at_end,
         "false, because rotary turns all of d_head");
  expect(!rotary->local_base || c.window, "rotary.local_base", rotary->local_base.value_or(0),
         "none, because no layer attends through a window");
  expect(!std::holds_alternative<DynamicScaling>(rotary->scaling) || c.rotary_dim(0) > 2, "rotary.dim",
         rotary->dim, "more than 2, because the scaling kind is dynamic");
  expect(!std::holds_alternative<YarnScaling>(rotary->scaling) || rotary->base > 1, "rotary.base",
         rotary->base, "more than 1, because the scaling kind is yarn");
}

// Heads with other sizes in layers without a window.
void check_full_heads(const ModelConfig& c) {
  const FullHeads& heads = *c.full_heads;
  const auto because = [](std::string_view expected) {
    return fmt::format("{}, because of full_heads", expected);
  };
  expect(c.window.has_value(), "full_heads", "sizes of layers without a window",
         "none, because no layer has a window; n_kv_heads and d_head are those of all layers");
  expect(heads.d_head != c.d_head || heads.n_kv_heads != c.n_kv_heads, "full_heads.d_head", heads.d_head,
         "another size than d_head, or another n_kv_heads than windowed layers have; else none");
  expect(!c.latent, "latent", "one", because("none"));
  const RotaryPositions* rotary = c.rotary();
  if (rotary == nullptr) return;
  expect(rotary->dim == 0, "rotary.dim", rotary->dim, because("0, all dimensions of each layer's heads"));
  expect(heads.d_head % 2 == 0, "full_heads.d_head", heads.d_head,
         "an even number, because rotary turns all of them");
  expect(!depends_on_length(rotary->scaling), "positions", word_of(rotary->scaling),
         because("another rotary scaling than dynamic or longrope"));
  const std::int64_t pairs = std::min(c.d_head, heads.d_head) / 2;
  expect(rotary->local_base || rotary->turned_pairs <= pairs, "rotary.turned_pairs", rotary->turned_pairs,
         fmt::format("at most {}, the pairs of the narrowest heads", pairs));
}

// KV sharing: layers that attend with the keys and values of others.
void check_shared_keys(const ModelConfig& c) {
  const auto because = [](std::string_view expected) {
    return fmt::format("{}, because of shared_keys", expected);
  };
  expect(!c.latent, "latent", "one", because("none"));
  expect(c.attends_everywhere(), "shared_keys", "layers without keys of their own",
         "none, because some layers have no attention");
  expect(!c.shortformer(), "positions", word_of(c.positions), because("another kind than shortformer"));
  for (std::int64_t l = c.layers_with_keys(); l < c.n_layers; ++l) {
    expect(c.windowed(c.key_layer(l)) == c.windowed(l), "shared_keys.layers", c.shared_keys->layers,
           fmt::format("fewer: no layer with keys of its own has {} window, as layer {} has",
                       c.windowed(l) ? "a" : "no", l));
  }
  expect(!c.experts || !c.experts->dense_layers.empty() || c.shared_keys->d_mlp == c.d_mlp,
         "shared_keys.d_mlp", c.shared_keys->d_mlp,
         fmt::format("d_mlp = {}, because every MLP is a mixture of experts", c.d_mlp));
}

// Per-layer embeddings: what blocks read of each token in addition to the stream.
void check_layer_input(const ModelConfig& c) {
  const auto because = [](std::string_view expected) {
    return fmt::format("{}, because of layer_input", expected);
  };
  expect(c.norm == NormKind::rms_norm, "norm", word_of(kNormKindWords, c.norm), because("RMS"));
  expect(!c.norms_stream(), "norm_place", word_of(kNormPlaceWords, c.norm_place),
         because("pre, output or both"));
  expect(c.layout == BlockLayout::serial, "layout", word_of(kBlockLayoutWords, c.layout), because("serial"));
  expect(c.has_mlp(), "mlp", word_of(kMlpKindWords, c.mlp), because("plain or gated"));
  expect(c.activation.kind() != Activation::xielu, "activation", activation_name(c.activation),
         because("another one than xielu"));
  expect(!c.summed_embedding() && !c.post_embedding_norm, "embedding_sum_norm",
         "a normed or summed embedding", because("none"));
}

// Layers of one kind that is not attention, by the field that lists them.
void check_layers_besides_attention(const ModelConfig& c, std::string_view field,
                                    const std::vector<bool>& layers) {
  const auto because = [&](std::string_view expected) {
    return fmt::format("{}, because of {}", expected, field);
  };
  bool attends = false;
  for (std::int64_t l = 0; l < c.n_layers; ++l) attends = attends || c.attends(l);
  expect(attends, field, "true", "false for at least one layer, which has attention");
  expect(c.direction == AttentionDirection::causal, "direction",
         word_of(kAttentionDirectionWords, c.direction), because("causal"));
  expect(c.relative() == nullptr, "positions", word_of(c.positions),
         because("another kind than relative_positional_bias"));
  for (std::size_t l = 0; c.window && l < layers.size(); ++l) {
    expect(!layers[l] || !c.window->layers[l], "window.layers", fmt::format("true for layer {}", l),
           because("false"));
  }
}

void check_mixers(const ModelConfig& c) {
  if (c.short_conv) check_layers_besides_attention(c, "short_conv.layers", c.short_conv->layers);
  if (!c.delta_net) return;
  check_layers_besides_attention(c, "delta_net.layers", c.delta_net->layers);
  for (std::size_t l = 0; c.short_conv && l < c.delta_net->layers.size(); ++l) {
    expect(!c.delta_net->layers[l] || !c.short_conv->layers[l], "delta_net.layers",
           fmt::format("true for layer {}", l), "false where short_conv.layers is true");
  }
}

void check_ends(const ModelConfig& c) {
  expect(
      c.embedding_norm == NormKind::layer_norm || c.post_embedding_norm || c.embedding_sum_norm,
      "embedding_norm", word_of(kNormKindWords, c.embedding_norm),
      fmt::format("{}, because the embedding is not normed", word_of(kNormKindWords, NormKind::layer_norm)));
  expect(!c.embedding_sum_norm || !c.post_embedding_norm, "embedding_sum_norm", c.embedding_sum_norm,
         "false, because post_embedding_norm already norms the embedding");
  expect(c.token_types == 0 || !c.post_embedding_norm, "token_types", c.token_types,
         "0, because post_embedding_norm norms the embedding before types are added");
  if (!c.unembedding) return;
  expect(!c.unembedding->tied || c.unembedding->d_vocab == c.d_vocab, "unembedding.tied", true,
         fmt::format("false, because unembedding.d_vocab = {} is not d_vocab = {}", c.unembedding->d_vocab,
                     c.d_vocab));
}

// A weight in a wider dtype meets values in that dtype, so these must be known to be wider.
void check_least_dtypes(const ModelConfig& c) {
  const LeastDtypes& least = c.least_dtypes;
  const auto expect_never = [&](bool allowed, std::string_view group, KeptInFloat32 value,
                                std::string_view because) {
    expect(allowed || value == KeptInFloat32::never, fmt::format("least_dtypes.{}", group),
           word_of(kKeptInFloat32Words, value), fmt::format("never, because {}", because));
  };
  expect_never(c.experts && c.experts->choice_bias, "choice_bias", least.choice_bias,
               "there is no experts.choice_bias");
  expect_never(c.experts && c.experts->router_in_float32, "router", least.router,
               "there is no experts.router_in_float32");
  expect_never(c.has_mlp() && !c.experts, "mlp_out", least.mlp_out,
               "not every MLP of the model is an ordinary one");
  expect_never(c.norm != NormKind::none && c.norm_place == NormPlace::pre && c.first_attention_norm &&
                   (c.final_norm != NormKind::none || !c.has_unembedding()) && !c.layer_input &&
                   !c.layer_scale,
               "mlp_out", least.mlp_out, "something else than norms reads the stream, which would be wider");
}

// One description of a block makes both stacks, so what is meaningless in one of them is refused.
void check_encoder(const ModelConfig& c) {
  const auto expect_plain = [&](bool allowed, std::string_view field, const auto& value,
                                std::string_view expected) {
    expect(allowed, field, value, fmt::format("{}, because there is an encoder", expected));
  };
  expect_plain(c.direction == AttentionDirection::causal, "direction",
               word_of(kAttentionDirectionWords, c.direction), "causal, which the decoder is");
  expect_plain(c.relative() != nullptr || c.learned_positions(), "positions", word_of(c.positions),
               "relative_positional_bias or standard");
  expect_plain(c.norm != NormKind::none, "norm", word_of(kNormKindWords, c.norm), "LN or RMS");
  expect_plain(c.norm_place == NormPlace::pre || c.norm_place == NormPlace::post, "norm_place",
               word_of(kNormPlaceWords, c.norm_place), "pre or post");
  expect_plain(!c.embedding_sum_norm || c.learned_positions(), "embedding_sum_norm", c.embedding_sum_norm,
               "false without learned positions");
  expect_plain(c.token_types == 0, "token_types", c.token_types, "0");
  expect_plain(!c.parallel(), "layout", word_of(kBlockLayoutWords, c.layout), "serial");
  expect_plain(c.has_mlp(), "mlp", word_of(kMlpKindWords, c.mlp), "plain or gated");
  expect_plain(c.score_soft_cap == 0, "score_soft_cap", c.score_soft_cap, "0");
  expect_plain(c.qkv_clip == 0, "qkv_clip", c.qkv_clip, "0");
  const std::pair<std::string_view, bool> absent[] = {
      {"experts", c.experts.has_value()},           {"window", c.window.has_value()},
      {"qk_norm", c.qk_norm.has_value()},           {"latent", c.latent_attention()},
      {"short_conv", c.short_conv.has_value()},     {"delta_net", c.delta_net.has_value()},
      {"shared_keys", c.shared_keys.has_value()},   {"layer_input", c.layer_input.has_value()},
      {"query_growth", c.query_growth.has_value()}, {"unembedding.mlm_head", c.has_mlm_head()}};
  for (const auto& [field, present] : absent) expect_plain(!present, field, "one", "none");
  const std::pair<std::string_view, bool> off[] = {{"attention_sinks", c.attention_sinks},
                                                   {"gated_heads", c.gated_heads},
                                                   {"value_norm", c.value_norm},
                                                   {"layer_scale", c.layer_scale},
                                                   {"scale_by_inverse_layer", c.scale_by_inverse_layer}};
  for (const auto& [field, on] : off) expect_plain(!on, field, on, "false");
}

}  // namespace

void check_rules(const ModelConfig& config) {
  check_parameters(config);
  if (config.has_encoder()) check_encoder(config);
  check_norms(config);
  check_mlp(config);
  if (config.experts) check_experts(config);
  check_positions(config);
  if (config.full_heads) check_full_heads(config);
  if (config.shared_keys) check_shared_keys(config);
  if (config.layer_input) check_layer_input(config);
  check_mixers(config);
  check_ends(config);
  check_least_dtypes(config);
}

}  // namespace hooked
