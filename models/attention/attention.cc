#include "models/attention/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "core/to_device.h"
#include "hooks/stream.h"
#include "models/attention/attention_recipes.h"
#include "models/attention/fused_attention.h"
#include "models/attention/heads.h"
#include "models/attention/tiled_attention.h"
#include "models/ops/ops.h"
#include "models/ops/recorded.h"

namespace hooked {

Attention::Attention(const GraphContext& context, Attends attends)
    : config_(context.config),
      attends_(attends),
      layer_(context.layer),
      kv_heads_(config_.kv_heads(layer_)),
      d_head_(config_.head_width(layer_)),
      d_value_(config_.value_dim(layer_)),
      key_layer_(attends == Attends::own_tokens ? config_.key_layer(layer_) : layer_),
      lends_keys_(attends == Attends::own_tokens && config_.lends_keys(layer_)) {
  const ModelConfig& c = config_;
  block_ = context.points.require(
      {.site = Site::resid_pre, .stack = context.stack, .layer = static_cast<std::int32_t>(layer_)});
  scale_ = 1.0 / (c.attn_scale * (c.scale_by_inverse_layer ? static_cast<double>(layer_ + 1) : 1.0));

  const auto parameter = [&](const char* name, at::IntArrayRef sizes) {
    return add_parameter(*this, name, sizes, context);
  };
  if (c.latent_attention()) {
    auto latents = std::make_unique<LatentProjection>(*this, context);
    latents_ = latents.get();
    projection_ = std::move(latents);
  } else {
    projection_ = std::make_unique<StreamProjection>(*this, context);
  }
  if (c.gated_heads) {
    W_G_ = add_matrix(*this, "W_G", c.n_heads * d_value_, c.d_model, {.out = d_value_, .in = c.d_model},
                      context);
    if (c.qkv_bias) b_G_ = parameter("b_G", {c.n_heads * d_value_});
  }
  W_O_ =
      add_matrix(*this, "W_O", c.d_model, c.n_heads * d_value_, {.out = c.d_model, .in = d_value_}, context);
  if (c.attn_out_bias) b_O_ = parameter("b_O", {c.d_model});
  if (c.attention_sinks) sinks_ = parameter("sinks", {c.n_heads});
  if (c.attention_sinks) zero_ = at::zeros({1}, context.options);

  if (c.norms_heads(layer_)) {
    const auto norm = [&](const char* name, Site normalized, std::int64_t heads) {
      using Shape = std::vector<std::int64_t>;
      const bool all_heads = c.qk_norm->span == QkNorm::whole_projection;
      const bool one_weight = c.qk_norm->span == QkNorm::per_head;
      return add_norm(*this, name,
                      {.kind = c.qk_norm->kind,
                       .normalized = normalized,
                       .shape = all_heads ? Shape{heads, d_head_} : Shape{d_head_},
                       .bias = c.qk_norm->bias,
                       .offset = c.norm_offset,
                       .weight_shape = one_weight ? Shape{d_head_} : Shape{heads, d_head_}},
                      context);
    };
    q_norm_ = norm("q_norm", Site::q_norm_normalized, c.n_heads);
    if (key_layer_ == layer_) k_norm_ = norm("k_norm", Site::k_norm_normalized, kv_heads_);
  }
  if (c.value_norm && key_layer_ == layer_) {
    v_norm_ = add_norm(*this, "v_norm",
                       {.kind = NormKind::rms_norm,
                        .normalized = Site::v_norm_normalized,
                        .shape = {d_value_},
                        .weighted = false},
                       context);
  }
  const auto point = [&](Site plain) {
    return add_point(*this, attends == Attends::own_tokens ? plain : cross_site(plain), context);
  };
  hook_q_ = point(Site::q);
  hook_k_ = point(Site::k);
  hook_v_ = point(Site::v);
  if (attends == Attends::own_tokens) {
    hook_rot_q_ = add_point(*this, Site::rot_q, context);
    hook_rot_k_ = add_point(*this, Site::rot_k, context);
    hook_gate_ = add_point(*this, Site::head_gate, context);
    if (c.holds_relative(layer_)) relative_bias_.emplace(*this, context);
  }
  hook_attn_scores_ = point(Site::attn_scores);
  hook_pattern_ = point(Site::pattern);
  hook_z_ = point(Site::z);
  hook_result_ = point(Site::result);
}

at::Tensor Attention::forward(const AttentionInput& input, const StackInputs& stack, Run& run) const {
  if (attends_ == Attends::encoder) return forward_cross(input, *stack.cross, run);
  if (at::Tensor z = replaced_z(input, stack, run); z.defined()) {
    return write(hook_z_->forward(std::move(z), run.watch), run);
  }
  const LayerInputs& shared = config_.windowed(layer_) ? stack.windowed : stack.full;
  const std::optional<Heads> replaced = replaced_heads(input, run);
  const std::optional<LatentKeys> latents = latent_keys(stack.sequence, run);
  const bool by_latents = latents && latents->absorbed() && !watches_keys(run.watch.plan());
  const bool without_keys = by_latents || key_layer_ != layer_;
  Heads heads = replaced     ? *replaced
                : by_latents ? latents_->project_to_latents(input, run)
                             : projection_->project(input, run);
  heads.q = hook_q_->forward(heads.q, run.watch);
  if (!without_keys) {
    heads.k = hook_k_->forward(heads.k, run.watch);
    heads.v = hook_v_->forward(heads.v, run.watch);
  }
  const bool norm_after_rotary = q_norm_ && config_.qk_norm->after_rotary;
  const auto norm = [&] {
    heads.q = q_norm_->forward(heads.q, run);
    if (k_norm_) heads.k = k_norm_->forward(heads.k, run);
  };
  if (q_norm_ && !norm_after_rotary) norm();
  if (v_norm_) heads.v = v_norm_->forward(heads.v, run);
  if (config_.qkv_clip > 0) {
    for (at::Tensor* x : {&heads.q, &heads.k, &heads.v})
      if (x->defined()) *x = at::clamp(*x, -config_.qkv_clip, config_.qkv_clip);
  }
  if (config_.rotates(layer_)) {
    if (latents && latents->takes_own_latents())
      heads.shared = turned(heads.shared, shared.angles, *config_.rotary(), run);
    turn(heads, shared.angles, *config_.rotary(), run);
  }
  if (config_.grows_queries(layer_)) heads.q = heads.q * stack.query_growth;
  if (hook_rot_q_) heads.q = hook_rot_q_->forward(heads.q, run.watch);
  if (hook_rot_k_ && !without_keys) heads.k = hook_rot_k_->forward(heads.k, run.watch);
  if (norm_after_rotary) norm();
  const std::optional<LayerInputs> own = own_inputs(stack, run);
  const at::Tensor mixed =
      attend_parts(heads, latents ? &*latents : nullptr, own ? *own : shared, stack, run);
  return write(hook_z_->forward(gated(mixed, input, stack, run), run.watch), run);
}

at::Tensor Attention::gated(const at::Tensor& mixed, const AttentionInput& input, const StackInputs& stack,
                            Run& run) const {
  if (!hook_gate_) return mixed;
  const at::Tensor gate = hook_gate_->forward(
      ops::linear(stack.asked_of(input.shared), W_G_, b_G_, run).view(mixed.sizes()), run.watch);
  return ops::multiply(mixed, at::sigmoid(gate), run);
}

bool Attention::watches_keys(const WatchPlan& plan, KeysWatched how) const {
  return std::ranges::any_of(std::array{&hook_k_, &hook_v_, &hook_rot_k_}, [&](const Point* point) {
    const WatchPlan::PointPlan* const watched = *point ? plan.find((*point)->number()) : nullptr;
    return watched != nullptr && (how == nullptr || (watched->*how)());
  });
}

KeyForm Attention::key_form(const WatchPlan& plan) const {
  if (key_layer_ != layer_) return KeyForm::shared;
  const bool latents = latents_ != nullptr && latents_->can_remember_latents() &&
                       !watches_keys(plan, &WatchPlan::PointPlan::may_change);
  return latents ? KeyForm::latents : KeyForm::heads;
}

KeysAndValues Attention::in_form(const KeysAndValues& columns, KeyForm form, Memory memory) const {
  return columns.form == form ? columns : latents_->heads_of(columns, memory);
}

std::optional<LatentKeys> Attention::latent_keys(const Sequence& sequence, Run& run) const {
  if (latents_ == nullptr) return std::nullopt;
  const bool may_change = watches_keys(run.watch.plan(), &WatchPlan::PointPlan::may_change) ||
                          watches_keys(run.watch.plan(), &WatchPlan::PointPlan::wants_gradient);
  return LatentKeys(*latents_, layer_, sequence, may_change, run);
}

std::optional<Heads> Attention::replaced_heads(const AttentionInput& input, const Run& run) const {
  if (key_layer_ != layer_) return std::nullopt;
  const auto replacement = [&](const Point& point, std::int64_t heads, std::int64_t width) {
    const std::int64_t rows = input.shared.size(0), columns = input.shared.size(1);
    return run.watch.replacement(point->number(), {rows, columns, heads, width}, input.shared.options());
  };
  const Heads heads{.q = replacement(hook_q_, config_.n_heads, d_head_),
                    .k = replacement(hook_k_, kv_heads_, d_head_),
                    .v = replacement(hook_v_, kv_heads_, d_value_)};
  const bool all = heads.q.defined() && heads.k.defined() && heads.v.defined();
  if (!all || run.watch.plan().watches_between(block_, hook_q_->number())) return std::nullopt;
  return heads;
}

at::Tensor Attention::replaced_z(const AttentionInput& input, const StackInputs& stack,
                                 const Run& run) const {
  // Keys that are read later must be computed.
  if (stack.sequence.cache() != nullptr || lends_keys_ ||
      run.watch.plan().watches_between(block_, hook_z_->number()))
    return {};
  return run.watch.replacement(hook_z_->number(),
                               {input.shared.size(0), input.shared.size(1), config_.n_heads, d_value_},
                               input.shared.options());
}

Attention::Segments Attention::borrowed(std::size_t part, Run& run) const {
  Segments& segments = run.lent_keys.at(key_layer_)[part];
  for (KeysAndValues& segment : segments) {
    segment.keys = to_device(segment.keys, W_O_.device());
    segment.values = to_device(segment.values, W_O_.device());
  }
  return segments;
}

Attention::Segments Attention::keys_of_part(std::size_t part, const Heads& own, const LatentKeys* latents,
                                            const StackInputs& stack, Run& run) const {
  if (key_layer_ != layer_) return borrowed(part, run);
  if (latents != nullptr) return latents->append(part, own);
  Segments segments =
      stack.sequence.parts()[part].append(layer_, {own.k.transpose(1, 2), own.v.transpose(1, 2)});
  if (lends_keys_) run.lent_keys[layer_].push_back(segments);
  return segments;
}

at::Tensor Attention::attend_parts(const Heads& heads, const LatentKeys* latents, const LayerInputs& layer,
                                   const StackInputs& stack, Run& run) const {
  return stack.sequence.of_parts([&](std::size_t part) {
    const auto own = [&](const at::Tensor& x) { return stack.sequence.part_of(x, part); };
    const Heads heads_here{own(heads.q), own(heads.k), own(heads.v), own(heads.latent), own(heads.shared)};
    const Segments keys = keys_of_part(part, heads_here, latents, stack, run);
    const at::Tensor q = stack.asked_of_part(heads_here.q, part);
    if (latents == nullptr || !latents->absorbed()) return attend(q, keys, layer.kinds[part], run);
    const at::Tensor sums = attend(latents_->queries_of_latents(q, run), keys, layer.kinds[part], run);
    return latents_->sums_of_values(sums, run);
  });
}

at::Tensor Attention::forward_cross(const AttentionInput& input, const CrossInputs& cross, Run& run) const {
  const Heads heads =
      projection_->project({.shared = input.shared, .encoder_output = cross.encoder_output}, run);
  const at::Tensor q = hook_q_->forward(heads.q, run.watch);  // of the requested columns
  KeysAndValues attended;
  if (cross.made != nullptr) {
    // One row serves many.
    const KeysAndValues& made = cross.made->layers[static_cast<std::size_t>(layer_)];
    attended = {made.keys.expand({q.size(0), -1, -1, -1}), made.values.expand({q.size(0), -1, -1, -1})};
  } else {
    attended = {hook_k_->forward(heads.k, run.watch).transpose(1, 2),
                hook_v_->forward(heads.v, run.watch).transpose(1, 2)};
    if (cross.kept != nullptr) cross.kept->layers.push_back(attended);
  }
  return write(hook_z_->forward(attend(q, {attended}, cross.kind, run), run.watch), run);
}

ScoreBias Attention::relative_bias(const Sequence& sequence, Run& run) const {
  const bool shared = relative_bias_ && !config_.relative()->in_every_block;
  return shared ? relative_bias_->forward(sequence, run.watch) : ScoreBias();
}

std::optional<LayerInputs> Attention::own_inputs(const StackInputs& stack, Run& run) const {
  if (!relative_bias_ || !config_.relative()->in_every_block) return std::nullopt;
  LayerInputs own;
  for (std::size_t part = 0; part < stack.sequence.parts().size(); ++part) {
    const Sequence& sequence = stack.sequence.parts()[part];
    LayerKind kind =
        sequence.layer_kind(config_.windowed(layer_), relative_bias_->forward(sequence, run.watch));
    kind.mask = kind.mask.on(relative_bias_->device());
    own.kinds.push_back(stack.asked.empty() ? kind : kind.of_queries(stack.asked[part]));
  }
  return own;
}

at::Tensor Attention::attend(const at::Tensor& q, const Segments& attended, const LayerKind& kind,
                             Run& run) const {
  const ScoreRules rules{
      .scale = scale_,
      .soft_cap = config_.score_soft_cap,
      .sinks = sinks_,
      .mask = kind.mask,
      // Code that changes scores may leave a query without keys.
      .has_empty_rows = kind.has_empty_rows || run.watch.may_change(hook_attn_scores_->number())};
  // Code that changes scores or pattern sees all of them; gradients pass through LibTorch's operators.
  const auto passes = [&](const Point& point) {
    return run.watch.may_change(point->number()) || run.watch.wants_gradient(point->number());
  };
  const bool whole = run.workspace == nullptr || passes(hook_attn_scores_) || passes(hook_pattern_) ||
                     records(q) || records(kind.mask.score_bias().values) ||
                     std::any_of(attended.begin(), attended.end(), [](const auto& segment) {
                       return records(segment.keys) || records(segment.values);
                     });
  const auto is_wanted = [&](const Point& point, Square square) {
    const auto recipe = [&](const ActivationName& name) {
      return recipe_of(square, name, q, attended, rules, *run.workspace);
    };
    return whole ? point->watched(run.watch) : !point->forward_late(recipe, ValueIs::skipped, run.watch);
  };
  const bool scores_wanted = is_wanted(hook_attn_scores_, Square::scores);
  const ScoresToKeep kept{.scores = scores_wanted, .pattern = is_wanted(hook_pattern_, Square::pattern)};
  const bool not_fused = config_.score_soft_cap > 0 || attended.size() > 1 || kept.scores || kept.pattern ||
                         attended.front().form == KeyForm::latents;
  if (whole) {
    return not_fused || sinks_.defined() ? attend_explicitly(q, attended, rules, run)
                                         : attend_fused(q, attended.front(), kind, scale_);
  }
  if (!not_fused && sinks_.defined()) {
    if (fused_serves_sinks(q, attended.front()))
      return attend_fused(q, attended.front(), kind, scale_, {sinks_, zero_});
  } else if (!not_fused && fused_is_faster(q, attended.front(), kind)) {
    return attend_fused(q, attended.front(), kind, scale_);
  }
  const AttentionOutput made = attend_in_tiles(q, attended, rules, kept, run);
  if (kept.scores) hook_attn_scores_->forward(made.scores, run.watch);
  if (kept.pattern) hook_pattern_->forward(made.pattern, run.watch);
  return made.z;
}

at::Tensor Attention::attend_explicitly(const at::Tensor& q, const Segments& attended,
                                        const ScoreRules& rules, Run& run) const {
  std::vector<at::Tensor> parts;  // [batch, head, query, key] each; shared keys are not copied together
  for (const KeysAndValues& segment : attended) {
    parts.push_back(ops::scores(q.transpose(1, 2), segment.keys, rules.scale, run));
  }
  const TileRules all{.bias = rules.mask.bias(), .blocked = rules.mask.blocked(), .sinks = rules.sinks};
  // A change may not make queries attend to padding: no row depends on the rows that it is padded for.
  const auto without_padding = [&](double unseen) -> AfterChange {
    const at::Tensor& real = rules.mask.visible().real;
    if (!real.defined()) return {};
    return [&real, unseen](const at::Tensor& changed) {
      return changed.masked_fill(real.logical_not().unsqueeze(1).unsqueeze(1), unseen);
    };
  };
  const at::Tensor scores = hook_attn_scores_->forward(
      finished_scores(parts.size() == 1 ? parts.front() : at::cat(parts, -1), rules, all, run), run.watch,
      without_padding(kMasked));
  const at::Tensor pattern =
      hook_pattern_->forward(probabilities(scores, rules, all, run), run.watch, without_padding(0.0));
  at::Tensor z;
  std::int64_t first_key = 0;
  for (const KeysAndValues& segment : attended) {
    const std::int64_t keys = segment.values.size(2);
    const at::Tensor part = ops::mix(pattern.narrow(-1, first_key, keys), segment.values, run);
    z = z.defined() ? z + part : part;
    first_key += keys;
  }
  return z;
}

at::Tensor Attention::write(const at::Tensor& z, Run& run) const {
  const auto recipe = [&](const ActivationName& name) {
    return recipe_of_result(name, z, W_O_, *run.workspace);
  };
  if (!hook_result_->watched(run.watch) ||
      (run.workspace != nullptr && hook_result_->forward_late(recipe, ValueIs::skipped, run.watch))) {
    return ops::linear(z.flatten(2), W_O_, b_O_, run);
  }
  const at::Tensor per_head = W_O_.by_input_heads(config_.n_heads).read();  // [head, d_head, d_model]
  const at::Tensor result = hook_result_->forward(ops::by_head_product(z, per_head, run), run.watch);
  const at::Tensor sum = result.sum(2);
  return b_O_.defined() ? sum + b_O_ : sum;
}

WeightSlots Attention::slots(const std::string& path) const {
  WeightSlots slots = projection_->slots(path);
  if (W_G_.defined()) slots.push_back({path + ".W_G", W_G_.by_output_heads(config_.n_heads)});
  if (b_G_.defined()) slots.push_back({path + ".b_G", b_G_.view({config_.n_heads, -1})});
  slots.push_back({path + ".W_O", W_O_.by_input_heads(config_.n_heads)});
  add_slot(slots, path + ".b_O", b_O_);
  add_slot(slots, path + ".sinks", sinks_);
  add_slots(slots, relative_bias_, path);
  add_slots(slots, q_norm_, path + ".q_norm");
  add_slots(slots, k_norm_, path + ".k_norm");
  return slots;
}

}  // namespace hooked
