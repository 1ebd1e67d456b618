// What the modules of a block wrote to the stream, in parts.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <utility>

#include "analysis/cache_reading.h"
#include "analysis/expert_tokens.h"
#include "analysis/stream_path.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"

namespace hooked {
namespace {

at::Tensor in_float64(const at::Tensor& value) { return value.to(at::kCPU, at::kDouble); }

std::int32_t layer_of(const BlockPlace& block) { return static_cast<std::int32_t>(block.layer); }

WeightView weights_of(const RunReading& run, const BlockPlace& block) {
  const auto weights = run.model.weights();
  return block.stack == Stack::encoder ? weights.encoder() : weights;
}

StreamNorm norm_at(Site normalized, const BlockPlace& block, const RunReading& run) {
  return stream_norm_at(run.model, {.site = normalized, .stack = block.stack, .layer = layer_of(block)});
}

/// Carries what a sublayer wrote through the norm of its output, whose bias is a part of its own.
std::vector<Writing> through_output_norm(std::vector<Writing> written, Site normalized,
                                         const std::string& bias, const BlockPlace& block,
                                         const RunReading& run) {
  const auto& config = run.model.config();
  if (!config.norms_outputs(block.layer)) return written;
  const auto norm = norm_at(normalized, block, run);
  const auto frozen = run.frozen(norm);
  for (auto& writing : written) writing.through.push_back(frozen);
  if (norm.bias.defined()) written.push_back(constant_part(bias, norm.bias, run));
  return written;
}

/// One kind of attention of a block.
struct HeadWriter {
  const char* prefix;  // of its parts' names
  act::BlockSite z, result;
  WeightView weights;
  ActivationName reads;  // the norm before its values
};

/// [head, d_value]: what is in each head's z whatever it attends to, as a pattern's rows sum to 1: the value
/// bias, and what the values make of the bias of the norm before them.
at::Tensor constant_values(const HeadWriter& writer, std::int64_t layer, const RunReading& run) {
  const auto& config = run.model.config();
  const bool through_latent = config.latent_attention();
  if (config.attention_sinks || config.gated_heads || config.value_norm || config.qkv_clip > 0 ||
      config.shared_keys || through_latent) {
    throw HookError(
        "value_biases",
        fmt::format("this model's attention has {}, so what is constant in its values does not stand "
                    "apart; use ValueBiases::in_heads",
                    config.attention_sinks ? "sinks"
                    : config.gated_heads   ? "gates"
                    : config.value_norm    ? "norms of values"
                    : through_latent       ? "latents"
                    : config.shared_keys   ? "layers that share values"
                                           : "clipped values"));
  }
  auto values = in_float64(writer.weights.b_V(layer));  // [kv_head, d_value]
  if (config.reads_through_ln1(layer)) {  // so does cross-attention, through the encoder's last norm
    const auto norm = stream_norm_at(run.model, writer.reads);
    if (norm.bias.defined())
      values = values + at::einsum("m,hmd->hd", {norm.bias, in_float64(writer.weights.W_V(layer))});
  }
  return values.repeat_interleave(config.heads_per_kv(layer), 0);
}

std::vector<Writing> heads_written(const HeadWriter& writer, const BlockPlace& block, const Split& split,
                                   const RunReading& run) {
  const auto& config = run.model.config();
  const auto layer = layer_of(block);
  Writing heads;
  for (std::int64_t head = 0; head < config.n_heads; ++head) {
    heads.labels.push_back(fmt::format("{}head {}.{}", writer.prefix, layer, head));
    heads.places.emplace_back(writer.result.in(block.stack, layer).head(head));
  }
  heads.matrix = [weights = writer.weights, layer] { return in_float64(weights.W_O(layer)); };
  auto bias = in_float64(writer.weights.b_O(layer));  // [d_model]
  const auto z = run(writer.z.in(block.stack, layer));
  heads.z = writer.z.in(block.stack, layer).name();
  if (split.value_biases == ValueBiases::in_bias) {
    const auto moved = constant_values(writer, layer, run);
    bias = bias + at::einsum("hw,hwm->m", {moved, heads.matrix()});
    heads.values = [z, moved] { return z - moved; };
  } else {
    heads.values = [z] { return z; };
  }
  return {std::move(heads), constant_part(fmt::format("{}attn bias {}", writer.prefix, layer), bias, run)};
}

/// So many neurons, whose values are [row, pos, neuron] and which a matrix [neuron, d_model] writes, a part
/// each.
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
  // The bias is what one more neuron writes.
  return {.values =
              [=] {
                return at::cat({values, weight}, 2).unsqueeze(2);
              },
          .matrix =
              [=] {
                return at::cat({in_float64(W_out()), bias.unsqueeze(0)}).unsqueeze(0);
              }};
}

/// One MLP within a mixture: its neurons times what its output is multiplied by.
struct MixedMlp {
  std::string name;     // `expert 1.3`
  std::string neurons;  // `neuron 1.3`
  Address post;
  at::Tensor values;                  // [row, pos, neuron]
  at::Tensor weight;                  // [row, pos, 1]
  std::function<at::Tensor()> W_out;  // [neuron, d_model]
  at::Tensor bias;                    // [d_model]
  std::optional<FrozenNorm> through;  // a norm behind it, within the mixture
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

std::vector<Writing> whole_or_split(const Address& out, const std::string& label, bool split,
                                    const std::function<std::vector<Writing>()>& parts,
                                    const RunReading& run) {
  if (split) return parts();
  std::vector<Writing> one;
  one.push_back(kept_part(label, out, run));
  return one;
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

std::vector<Writing> attention_written(const BlockPlace& block, const Split& split, const RunReading& run) {
  const auto layer = layer_of(block);
  // What stands in attention's place has no heads and stays whole.
  const bool attends = run.model.config().attends(layer);
  return whole_or_split(
      act::attn_out.in(block.stack, layer), fmt::format("{} {}", run.model.config().mixer(layer), layer),
      attends && split.grain != Grain::layer,
      [&] {
        const HeadWriter writer{"", act::z, act::result, weights_of(run, block),
                                act::ln1_normalized.in(block.stack, layer).name()};
        return through_output_norm(heads_written(writer, block, split, run), Site::ln1_post_normalized,
                                   fmt::format("attn norm bias {}", layer), block, run);
      },
      run);
}

std::vector<Writing> cross_attention_written(const BlockPlace& block, const Split& split,
                                             const RunReading& run) {
  const auto layer = layer_of(block);
  return whole_or_split(
      act::cross_attn_out.in(block.stack, layer), fmt::format("cross attn {}", layer),
      split.grain != Grain::layer,
      [&] {
        const HeadWriter writer{"cross ",
                                act::cross_z,
                                act::cross_result,
                                run.model.weights().cross_attention(),
                                {.site = Site::encoder_final_ln_normalized}};
        return heads_written(writer, block, split, run);
      },
      run);
}

std::vector<Writing> mlp_written(const BlockPlace& block, const Split& split, const RunReading& run) {
  const auto layer = layer_of(block);
  const bool mixture = run.model.config().mixture(layer);
  const auto finest = mixture ? Grain::expert : Grain::neuron;  // that leaves the MLP whole, and one more
  return whole_or_split(
      act::mlp_out.in(block.stack, layer), fmt::format("mlp {}", layer), split.grain >= finest,
      [&] {
        std::vector<Writing> written;
        if (mixture) {
          written = mixture_written(block, split.grain, run);
        } else {
          const auto post = act::post.in(block.stack, layer);
          const auto weights = weights_of(run, block);
          run.cache.entry(post.name());  // an error comes here, not later
          // Read when it is asked for: of many layers it is more than what is made of it.
          written.push_back(neurons_written(
              size_of(Axis::d_mlp, run.model.config(), layer), [run, post] { return run(post); },
              [weights, layer] { return weights.W_out(layer); }, fmt::format("neuron {}", layer), post));
          written.push_back(
              constant_part(fmt::format("mlp bias {}", layer), in_float64(weights.b_out(layer)), run));
        }
        return through_output_norm(std::move(written), Site::ln2_post_normalized,
                                   fmt::format("mlp norm bias {}", layer), block, run);
      },
      run);
}

}  // namespace hooked
