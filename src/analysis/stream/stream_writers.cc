// What the modules of a block wrote to the stream, in parts.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "analysis/places/cache_reading.h"
#include "analysis/stream/expert_tokens.h"
#include "analysis/stream/stream_graph.h"
#include "analysis/stream/stream_path.h"
#include "analysis/work/obstacles.h"
#include "hooked/hooks/act.h"

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

/// One kind of attention of a block.
struct HeadWriter {
  act::BlockSite result;
  WeightView weights;
  std::optional<ActivationName> norm;  // before its values
};

/// [head, d_value]: the part of each head's z that does not depend on attention, since a pattern's rows sum
/// to 1: the value bias, and W_V times the bias of the norm before the values.
at::Tensor constant_values(const HeadWriter& writer, std::int64_t layer, const RunReading& run) {
  const auto& config = run.model.config();
  require_free_of(config, "value_biases", obstacles::kConstantValues);
  auto values = in_float64(writer.weights.b_V(layer));  // [kv_head, d_value]
  if (writer.norm) {
    const auto norm = stream_norm_at(run.model, *writer.norm);
    if (norm.bias.defined())
      values = values + at::einsum("m,hmd->hd", {norm.bias, in_float64(writer.weights.W_V(layer))});
  }
  return values.repeat_interleave(config.heads_per_kv(layer), 0);
}

std::vector<Writing> heads_written(const StreamStep& step, const Split& split, const RunReading& run) {
  const auto& config = run.model.config();
  const auto block = step.block();
  const auto layer = step.point.layer;
  const bool crosses = step.part == Part::cross_attention;
  const HeadWriter writer{.result = crosses ? act::cross_result : act::result,
                          .weights = weights_around(run.model, step.of_attention(Site::z)),
                          .norm = norm_before_values(config, step)};
  Writing heads;
  for (std::int64_t head = 0; head < config.n_heads; ++head) {
    heads.labels.push_back(step.part_label("head", head));
    heads.places.emplace_back(writer.result.in(block.stack, layer).head(head));
  }
  heads.matrix = [weights = writer.weights, layer] { return in_float64(weights.W_O(layer)); };
  auto bias = in_float64(writer.weights.b_O(layer));  // [d_model]
  heads.z = step.of_attention(Site::z);
  const auto z = run(*heads.z);
  if (split.value_biases == ValueBiases::in_bias) {
    const auto moved = constant_values(writer, layer, run);
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
  return {neurons_written(
              size_of(Axis::d_mlp, run.model.config(), layer), [run, post] { return run(post); },
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

Writing kept_part(std::string label, const Address& address, const RunReading& run) {
  const auto value = run(address).unsqueeze(2);
  return {.labels = {std::move(label)},
          .places = {Address(run.cache.entry(address.name()).name)},
          .values = [value] { return value; }};
}

std::vector<Writing> written_by(const StreamStep& write, const Split& split, const RunReading& run) {
  if (write.of_heads() && split.grain != Grain::layer)
    return through_output_norm(heads_written(write, split, run), write, run);
  if (write.part == Part::mixture && split.grain >= Grain::expert)
    return through_output_norm(mixture_written(write.block(), split.grain, run), write, run);
  if (write.part == Part::dense_mlp && split.grain >= Grain::neuron)
    return through_output_norm(neurons_of_mlp(write, run), write, run);
  std::vector<Writing> whole;
  whole.push_back(kept_part(write.label(), write.point, run));
  return whole;
}

}  // namespace hooked
