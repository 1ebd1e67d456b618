// What the modules of a block wrote to the stream, in parts.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <optional>
#include <tuple>
#include <utility>

#include "analysis/places/cache_reading.h"
#include "analysis/places/input_rows.h"
#include "analysis/stream/stream_features.h"
#include "analysis/stream/stream_graph.h"
#include "analysis/stream/stream_path.h"
#include "analysis/work/obstacles.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/edit.h"
#include "hooks/held_columns.h"

namespace hooked {
namespace {

at::Tensor in_float64(const at::Tensor& value) { return value.to(at::kCPU, at::kDouble); }

std::int32_t layer_of(const BlockPlace& block) { return static_cast<std::int32_t>(block.layer); }

StreamNorm norm_at(Site normalized, const BlockPlace& block, const RunReading& run) {
  return stream_norm_at(run.model, {.site = normalized, .stack = block.stack, .layer = layer_of(block)});
}

/// Carries what a sublayer wrote through the norm of its output, whose bias is a separate part.
std::vector<Writing> through_output_norm(std::vector<Writing> written, const StreamStep& step,
                                         const RunReading& run) {
  for (const ActivationName& normalized : step.through) {
    const auto norm = stream_norm_at(run.model, normalized);
    const auto frozen = run.frozen(norm);
    for (auto& writing : written) writing.through.push_back(frozen);
    if (norm.bias.defined()) written.push_back(constant_part(step.label("norm bias"), norm.bias, run));
  }
  return written;
}

/// The weights of the attention that writes in this step.
WeightView weights_of_heads(const StreamStep& step, const RunReading& run) {
  return weights_around(run.model, step.of_attention(Site::z));
}

/// [head, d_value]: the part of each head's z that does not depend on attention, since a pattern's rows sum
/// to 1: the value bias, and W_V times the bias of the norm before the values.
at::Tensor constant_values(const StreamStep& step, const RunReading& run) {
  const auto& config = run.model.config();
  require_free_of(config, "value_biases", obstacles::kConstantValues);
  const auto weights = weights_of_heads(step, run);
  const auto layer = step.point.layer;
  auto values = in_float64(weights.b_V(layer));  // [kv_head, d_value]
  if (const auto before = norm_before_values(config, step)) {
    const auto norm = stream_norm_at(run.model, *before);
    if (norm.bias.defined())
      values = values + at::einsum("m,hmd->hd", {norm.bias, in_float64(weights.W_V(layer))});
  }
  return values.repeat_interleave(config.heads_per_kv(layer), 0);
}

std::vector<Writing> heads_written(const StreamStep& step, const Split& split, const RunReading& run) {
  const auto layer = step.point.layer;
  const auto weights = weights_of_heads(step, run);
  const act::BlockSite result = step.crosses() ? act::cross_result : act::result;
  Writing heads;
  for (std::int64_t head = 0; head < run.model.config().n_heads; ++head) {
    heads.labels.push_back(step.part_label("head", head));
    heads.places.emplace_back(result.in(step.point.stack, layer).head(head));
  }
  heads.matrix = [weights, layer] { return in_float64(weights.W_O(layer)); };
  auto bias = in_float64(weights.b_O(layer));  // [d_model]
  heads.z = step.of_attention(Site::z);
  const auto z = gone_on(*heads.z, run);
  if (split.value_biases == ValueBiases::in_bias) {
    const auto moved = constant_values(step, run);
    bias = bias + at::einsum("hw,hwm->m", {moved, heads.matrix()});
    heads.values = [z, moved] { return z - moved; };
  } else {
    heads.values = [z] { return z; };
  }
  return {std::move(heads), constant_part(step.label("bias"), bias, run)};
}

/// Neurons whose values are [row, pos, neuron] and which a matrix [neuron, d_model] writes, one part each.
Writing neurons_written(std::int64_t count, std::function<at::Tensor()> values,
                        std::function<at::Tensor()> W_out, const std::string& label, const Address& post) {
  Writing neurons;
  for (std::int64_t neuron = 0; neuron < count; ++neuron) {
    neurons.labels.push_back(fmt::format("{}.{}", label, neuron));
    neurons.places.emplace_back(post.neuron(neuron));
  }
  neurons.values = [values = std::move(values)] { return values().unsqueeze(3); };
  neurons.matrix = [W_out = std::move(W_out)] { return in_float64(W_out()).unsqueeze(1); };
  return neurons;
}

/// The same as one part, where `bias` [d_model] is written once for each `weight` [row, pos, 1].
Writing neurons_as_one(const at::Tensor& values, std::function<at::Tensor()> W_out, const at::Tensor& weight,
                       const at::Tensor& bias) {
  // The bias is written as by one more neuron.
  return {.values =
              [=] {
                return at::cat({values, weight}, 2).unsqueeze(2);
              },
          .matrix =
              [=] {
                return at::cat({in_float64(W_out()), bias.unsqueeze(0)}).unsqueeze(0);
              }};
}

/// The experts that the router chose by its weights, [batch, pos, rank], before hooks and edits sent tokens
/// elsewhere. The model itself computes them, in a run of only this layer with these weights.
at::Tensor chosen_by_router(const HookedTransformer& model, std::int32_t layer, const at::Tensor& weights,
                            const at::Tensor& sent_to) {
  const HookedTransformer plain(model.loaded());  // without the hooks of the handle
  const Address choice = act::expert_indices(layer);
  const at::Tensor nothing =
      at::zeros({weights.size(0), weights.size(1), plain.config().d_model},
                at::TensorOptions(plain.config().stream_dtype()).device(plain.device()));
  const auto run = plain.run(at_layer(plain.config(), plain.config().last_start(layer, layer + 1), nothing),
                             {.edits = {set(act::expert_weights(layer), weights)},
                              .capture = choice,
                              .output = Output::none,
                              .stop_at_layer = layer + 1});
  const at::Tensor chosen = run.cache[choice].to(at::kCPU);
  if (plain.config().experts->router != RouterKind::sparse_mixer) return chosen;
  // Its ranks differ from those of the weights. If the experts are the same, tokens went where it chose.
  const auto same = std::get<0>(chosen.sort(-1)).eq(std::get<0>(sent_to.sort(-1))).all(-1, /*keepdim=*/true);
  return at::where(same, sent_to, chosen);
}

/// The weight of each rank's output, [batch, pos, rank], from the router's weights of all experts. `scale`
/// [expert]: of Experts::expert_scale, else undefined.
at::Tensor weights_of_chosen(const at::Tensor& weights, const at::Tensor& chosen, const at::Tensor& scale,
                             const Experts& experts) {
  auto ranked = weights.gather(-1, chosen);
  if (experts.weighted_inputs) return at::ones_like(ranked);  // their outputs are added as they are
  if (experts.renormalised) {
    const auto sum = ranked.sum(-1, /*keepdim=*/true) + experts.added_to_sum;
    // Only edits can make the sum zero if nothing is added.
    ranked = ranked /
             (experts.least_sum > 0 ? sum.clamp_min(experts.least_sum) : sum.masked_fill(sum == 0.0, 1.0));
  }
  return scale.defined() ? ranked * scale.index_select(0, chosen.flatten()).view(chosen.sizes()) : ranked;
}

// [batch, pos, rank] by rank first, then row and position: the order in which experts get their tokens.
at::Tensor by_rank(const at::Tensor& x) { return x.permute({2, 0, 1}).flatten(); }

/// Which tokens of a run each expert of a mixture got, and what its output was multiplied by for them.
class ExpertTokens {
 public:
  /// Throws HookError unless the run kept the router's weights and choices at all positions.
  ExpertTokens(std::int32_t layer, const RunReading& run);

  /// The weight of an expert's output for each token, [row, pos, 1] float64; 0 if it did not get the token.
  at::Tensor weight(std::int32_t expert) const {
    const auto places = places_of(expert);
    return by_token(places, weights_of(places));
  }
  /// An activation [routed, width] of one expert times the weight of its output, by token: [row, pos, width]
  /// float64, 0 if it did not get the token.
  at::Tensor weighted(const Address& activation) const {
    const auto value = in_float64(run_.cache[activation]);  // [routed, width]
    const auto places = places_of(activation.name().expert);
    if (value.size(0) != places.size(0)) {
      throw HookError(run_.cache.entry(activation.name()).name.to_string(),
                      fmt::format("it holds {} tokens; expected the {} that the router sent to this expert",
                                  value.size(0), places.size(0)));
    }
    return by_token(places, value * weights_of(places));
  }

 private:
  at::Tensor places_of(std::int64_t expert) const { return owners_.eq(expert).nonzero().flatten(); }
  at::Tensor weights_of(const at::Tensor& places) const {
    return weights_.index_select(0, places).unsqueeze(1);
  }
  at::Tensor by_token(const at::Tensor& places, const at::Tensor& of_routed) const {
    const auto tokens = batch_ * length_;
    const auto all =
        at::zeros({tokens, of_routed.size(1)}, at::kDouble).index_add(0, places.remainder(tokens), of_routed);
    return columns_like(run_.cache, indices_, all.view({batch_, length_, -1}), run_.columns);
  }

  const RunReading& run_;
  ActivationName indices_;
  std::int64_t batch_, length_;
  at::Tensor owners_;   // [rank * batch * pos] int64, by rank first; -1 for padding
  at::Tensor weights_;  // [rank * batch * pos] float64
};

ExpertTokens::ExpertTokens(std::int32_t layer, const RunReading& run)
    : run_(run), indices_(run.cache.entry(Address(act::expert_indices(layer)).name()).name) {
  const auto chosen = run.cache[indices_].to(at::kCPU);
  const auto weights = in_float64(run.cache[act::expert_weights(layer)]);
  batch_ = chosen.size(0);
  length_ = chosen.size(1);
  const auto& tokens = run.cache.tokens();
  if (!HeldColumns(run.cache, run.cache.entry(indices_)).all_of_the_run()) {
    throw HookError(
        indices_.to_string(),
        "only some positions were kept; expected all of them for the experts' tokens; run without "
        "`keep.positions`");
  }
  auto owners = chosen;
  if (tokens && tokens->mask.defined())
    owners = owners.masked_fill(tokens->mask.to(at::kCPU).logical_not().unsqueeze(-1), -1);
  owners_ = by_rank(owners);
  // Edits of the choice send tokens elsewhere, while weights stay with their rank.
  const auto of_router = chosen_by_router(run.model, layer, run.cache[act::expert_weights(layer)], chosen);
  const Experts& experts = *run.model.config().experts;
  at::Tensor scale;
  if (experts.expert_scale) {
    scale = in_float64(run.model.weights()[fmt::format("blocks.{}.mlp.expert_scale", indices_.layer)]);
  }
  weights_ = by_rank(weights_of_chosen(weights, of_router, scale, experts));
}

/// One MLP within a mixture: its neurons times the weight of its output.
struct MixedMlp {
  std::string name;     // `expert 1.3`
  std::string neurons;  // `neuron 1.3`
  Address post;
  at::Tensor values;                  // [row, pos, neuron]
  at::Tensor weight;                  // [row, pos, 1]
  std::function<at::Tensor()> W_out;  // [neuron, d_model]
  at::Tensor bias;                    // [d_model]
  std::optional<FrozenNorm> through;  // a norm after it, within the mixture
};

std::vector<MixedMlp> mixed_mlps(const BlockPlace& block, const RunReading& run) {
  const auto& config = run.model.config();
  const auto& experts = *config.experts;
  const auto layer = layer_of(block);
  const auto weights = run.model.weights();
  const auto bias = [&](bool there, const std::string& name) {
    return there ? in_float64(weights[fmt::format("{}.mlp.{}", block.path(), name)])
                 : at::zeros({config.d_model}, at::kDouble);
  };
  const auto behind = [&](Site normalized) {
    return experts.own_norms ? std::optional(run.frozen(norm_at(normalized, block, run))) : std::nullopt;
  };
  std::vector<MixedMlp> all;
  const auto through = behind(Site::experts_ln_post_normalized);
  const ExpertTokens tokens(layer, run);
  for (std::int32_t e = 0; e < experts.n_experts; ++e) {
    const auto weight = tokens.weight(e);
    const Address post(
        ActivationName{.site = Site::expert_post, .stack = block.stack, .layer = layer, .expert = e});
    all.push_back({.name = fmt::format("expert {}.{}", layer, e),
                   .neurons = fmt::format("neuron {}.{}", layer, e),
                   .post = post,
                   .values = tokens.weighted(post),
                   .weight = weight,
                   .W_out = [weights, layer, e] { return weights.W_out(layer, e); },
                   .bias = bias(experts.bias, fmt::format("experts.{}.W_out.bias", e)),
                   .through = through});
  }
  if (experts.d_shared == 0) return all;
  const auto shared_post = act::shared_post.in(block.stack, layer);
  const auto post = run(shared_post);
  const auto weight = experts.shared_gate ? run(act::shared_weight(layer))
                                          : at::ones({post.size(0), post.size(1), 1}, at::kDouble);
  all.push_back({.name = fmt::format("shared expert {}", layer),
                 .neurons = fmt::format("shared neuron {}", layer),
                 .post = shared_post,
                 .values = post * weight,
                 .weight = weight,
                 .W_out = [weights, layer] { return weights.W_out_shared(layer); },
                 .bias = bias(config.mlp_bias, "shared_expert.b_out"),
                 .through = behind(Site::shared_ln_post_normalized)});
  return all;
}

std::vector<Writing> mixture_written(const BlockPlace& block, Grain grain, const RunReading& run) {
  std::vector<Writing> written;
  at::Tensor bias;  // [row, pos, d_model]
  for (const auto& mlp : mixed_mlps(block, run)) {
    if (grain == Grain::neuron) {
      written.push_back(neurons_written(
          mlp.values.size(2), [values = mlp.values] { return values; }, mlp.W_out, mlp.neurons, mlp.post));
      auto own = mlp.weight * mlp.bias;
      if (mlp.through) own = mlp.through->of(own);
      bias = bias.defined() ? bias + own : own;
    } else {
      written.push_back(neurons_as_one(mlp.values, mlp.W_out, mlp.weight, mlp.bias));
      written.back().labels = {mlp.name};
      written.back().places = {mlp.post};
    }
    if (mlp.through) written.back().through.push_back(*mlp.through);
  }
  if (bias.defined()) {
    written.push_back({.labels = {fmt::format("mlp bias {}", block.layer)},
                       .places = {std::nullopt},
                       .values = [bias] { return bias.unsqueeze(2); }});
  }
  return written;
}

std::vector<Writing> neurons_of_mlp(const StreamStep& step, const RunReading& run) {
  const auto layer = step.point.layer;
  const auto post = act::post.in(step.point.stack, layer);
  const auto weights = weights_around(run.model, step.point);
  run.cache.entry(post.name());  // so that an error is thrown here, not later
  // Read on request: for many layers it is larger than the result.
  return {
      neurons_written(
          size_of(Axis::d_mlp, run.model.config(), layer), [run, post] { return gone_on(post.name(), run); },
          [weights, layer] { return weights.W_out(layer); }, fmt::format("neuron {}", layer), post),
      constant_part(step.label("bias"), in_float64(weights.b_out(layer)), run)};
}

}  // namespace

Writing constant_part(std::string label, const at::Tensor& vector, const RunReading& run) {
  const auto everywhere =
      vector.view({1, 1, 1, -1}).expand({run.columns.rows(), run.columns.positions(), 1, -1});
  return {
      .labels = {std::move(label)}, .places = {std::nullopt}, .values = [everywhere] { return everywhere; }};
}

Writing kept_part(std::string label, const ActivationName& name, const RunReading& run) {
  const auto value = gone_on(name, run).unsqueeze(2);
  return {.labels = {std::move(label)}, .places = {Address(run.cache.entry(name).name)}, .values = [value] {
            return value;
          }};
}

std::vector<Writing> written_by(const StreamStep& write, const Split& split, const RunReading& run) {
  if (split.grain == Grain::feature) {
    if (auto features = features_written(write, run)) {
      return features->before_norms ? through_output_norm(std::move(features->parts), write, run)
                                    : std::move(features->parts);
    }
  } else if (write.of_heads() && split.grain >= Grain::head) {
    return through_output_norm(heads_written(write, split, run), write, run);
  } else if (write.part == Part::mixture && split.grain >= Grain::expert) {
    return through_output_norm(mixture_written(write.block(), split.grain, run), write, run);
  } else if (write.part == Part::dense_mlp && split.grain >= Grain::neuron) {
    return through_output_norm(neurons_of_mlp(write, run), write, run);
  }
  std::vector<Writing> whole;
  whole.push_back(kept_part(write.label(), write.point, run));
  return whole;
}

}  // namespace hooked
