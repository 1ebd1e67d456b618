#include "hooked/analysis/norm_geometry.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "analysis/places/cache_reading.h"
#include "analysis/stream/final_stage.h"
#include "analysis/stream/logit_reading.h"
#include "analysis/stream/part_measures.h"
#include "analysis/stream/stream_graph.h"
#include "analysis/stream/stream_path.h"
#include "analysis/values/numberless.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/point_index.h"
#include "hooks/norm_points.h"

namespace hooked {
namespace {

/// The end of the stream as the final norm reads it, and the probe of a logit.
struct ProbedStream {
  ProbedStream(const HookedTransformer& model, const ActivationCache& cache,
               const AttributionOptions& options, const char* where)
      : end(end_of_stream(model.config())), run(reading_of(model, cache, {end, options.positions})) {
    const auto& config = model.config();
    reading = logit_reading({where, options.answer, options.against}, run);
    if (config.final_norm == NormKind::none) {
      throw HookError(where, "this model has no final norm; expected one with a norm before its unembedding");
    }
    centres = config.final_norm == NormKind::layer_norm;
    const auto scale = run(hooked::scale_of(final_norm_of(config)));  // [row, pos, 1]
    run_scale = scale.squeeze(-1);
    probe = (reading.directions.squeeze(2) * scale).select(1, 0);  // the same at every position
    bias = (reading.norm_bias + reading.unembed_bias).squeeze(1);
    x = centred(run(end), centres);
    square = x.square().sum(-1);
    width = static_cast<double>(config.d_model);
    eps = config.eps;
  }

  /// The norm's scale for a stream of that squared length.
  at::Tensor scale_of(const at::Tensor& squared_length) const {
    return (squared_length / width + eps).sqrt();
  }

  Grid grid(const at::Tensor& by_row, GridAxis axis, const char* title, const char* unit) const {
    return Grid(without_padding(by_row, run.columns),
                {numbered_axis("row", run.columns.rows()), std::move(axis), run.columns.axis},
                {.title = title, .unit = unit});
  }

  ActivationName end;
  RunReading run;
  LogitReading reading;
  bool centres = false;
  at::Tensor probe;      // [row, d_model]
  at::Tensor bias;       // [row]
  at::Tensor x;          // [row, pos, d_model], c of the stream
  at::Tensor square;     // [row, pos]
  at::Tensor run_scale;  // [row, pos]: what the norm divided by, including edits
  double width = 0, eps = 0;
};

/// The parts of that stream as the norm reads them, and numbers computed from each.
class ProbedParts {
 public:
  ProbedParts(const ProbedStream& stream, const AttributionOptions& options)
      : stream_(stream), path_(path_to(stream.end, {options.grain, options.value_biases}, stream.run)) {
    const FrozenNorm centring{.centres = stream.centres, .scale = at::ones({1, 1, 1}, at::kDouble)};
    path_.push_back({.norm = centring});
    axis_ = part_axis(path_);
  }

  /// Each part along the stream and along the probe, as the two directions.
  void measure(const std::function<void(const PartMeasures& measures)>& use) const {
    const auto& x = stream_.x;
    measure_parts(path_, x, at::stack({x, stream_.probe.unsqueeze(1).expand_as(x)}, 2), use);
  }

  /// A number for each part, [row, part, pos]. There may be very many parts (neurons), so this is the only
  /// tensor of this size.
  at::Tensor numbers() const {
    const auto parts = static_cast<std::int64_t>(axis_.labels.size());
    return at::empty({stream_.x.size(0), parts, stream_.x.size(1)}, stream_.x.options());
  }
  static void put(const at::Tensor& numbers, std::int64_t first, const at::Tensor& by_part) {
    numbers.narrow(1, first, by_part.size(0)).copy_(by_part.transpose(0, 1));
  }

  Grid grid(const at::Tensor& numbers, const char* title, const char* unit) const {
    return stream_.grid(numbers, axis_, title, unit);
  }

 private:
  const ProbedStream& stream_;
  StreamPath path_;
  GridAxis axis_;
};

/// An MLP, and the norm and the stream that it reads through.
struct NormedMlp {
  WeightView weights;
  StreamNorm norm;
  ActivationName stream;
};

// LN(x) W and x W of one layer's MLP, each [row, pos, neuron].
struct Readings {
  at::Tensor normed, unnormed, scaled;
};

Readings readings_of(const RunReading& run, const NormedMlp& mlp, std::int32_t layer) {
  const auto in_float64 = [](const at::Tensor& weight) { return weight.to(at::kCPU, at::kDouble); };
  auto W = in_float64(mlp.weights.W_in(layer));  // [d_model, neuron]
  if (run.model.config().mlp == MlpKind::gated) W = at::cat({in_float64(mlp.weights.W_gate(layer)), W}, 1);
  auto normed = run(mlp.norm.normalized);
  if (mlp.norm.weight.defined()) normed = normed * mlp.norm.weight;
  if (mlp.norm.bias.defined()) normed = normed + mlp.norm.bias;
  const auto x = run(Address(mlp.stream));
  return {normed.matmul(W), x.matmul(W), (x / run(mlp.norm.scale)).matmul(W)};
}

}  // namespace

NormedLogit normed_logit(const HookedTransformer& model, const ActivationCache& cache,
                         const AttributionOptions& options) {
  const ProbedStream s(model, cache, options, "normed_logit");
  const auto length = s.square.sqrt();  // [row, pos]
  const auto probe_length = s.probe.square().sum(-1, true).sqrt().expand_as(length);
  const auto along = (s.x * s.probe.unsqueeze(1)).sum(-1);
  const auto scale = s.scale_of(s.square);
  const auto bias = s.bias.unsqueeze(1).expand_as(length);
  const auto behind = behind_stream({"normed_logit", options.answer, options.against}, s.reading, s.run);
  const auto remainder = behind + along / s.run_scale - along / scale;
  const auto terms = at::stack({along / scale + bias, probe_length, length / scale,
                                along / (probe_length * length), bias, length, remainder},
                               1);
  GridAxis quantities{
      .name = "quantity",
      .labels = {"logit", "probe length", "normed length", "cosine", "bias", "stream length", "remainder"}};
  return {s.probe, s.bias,
          s.grid(terms, std::move(quantities), "A logit read through the final norm", "as named")};
}

NormShares norm_shares(const HookedTransformer& model, const ActivationCache& cache,
                       const AttributionOptions& options) {
  const ProbedStream s(model, cache, options, "norm_shares");
  const ProbedParts parts(s, options);
  const auto lengths = s.probe.square().sum(-1, true).sqrt() * s.square.sqrt();  // [row, pos]
  const auto length = parts.numbers(), cosine = parts.numbers();
  parts.measure([&](const PartMeasures& some) {
    ProbedParts::put(length, some.first, some.along.select(-1, 0) / s.square);
    ProbedParts::put(cosine, some.first, some.along.select(-1, 1) / lengths);
  });
  return {parts.grid(length, "Shares of the stream's length", "share"),
          parts.grid(cosine, "Shares of the cosine with the probe", "cosine")};
}

LeaveOneOut leave_one_out(const HookedTransformer& model, const ActivationCache& cache,
                          const AttributionOptions& options) {
  const ProbedStream s(model, cache, options, "leave_one_out");
  const ProbedParts parts(s, options);
  const auto whole = (s.x * s.probe.unsqueeze(1)).sum(-1);  // [row, pos]
  const auto scale = s.scale_of(s.square);
  const auto exact = parts.numbers(), frozen = parts.numbers();
  parts.measure([&](const PartMeasures& some) {
    const auto along_stream = some.along.select(-1, 0), along_probe = some.along.select(-1, 1);
    // The law of cosines gives the rest's length; rounding may make it negative.
    const auto left = (s.square - 2.0 * along_stream + some.square_of_length()).clamp_min(0.0);
    ProbedParts::put(exact, some.first, (whole - along_probe) / s.scale_of(left) - whole / scale);
    ProbedParts::put(frozen, some.first, -along_probe / s.run_scale);
  });
  return {parts.grid(exact, "Without one part", s.reading.unit),
          parts.grid(frozen, "Without one part, the scale held", s.reading.unit)};
}

Grid unnormed_reading(const HookedTransformer& model, const ActivationCache& cache,
                      const UnnormedReadingOptions& options) {
  const auto& config = model.config();
  const RunReading run = reading_of(model, cache, {act::resid_pre.in(options.stack, 0), options.positions});
  const auto n_layers = options.stack == Stack::encoder ? config.n_encoder_layers() : config.n_layers;
  const std::vector<StreamStep> steps = stream_of(config, options.stack);
  const bool some_read_through_norms = std::ranges::any_of(steps, [](const StreamStep& step) {
    return step.kind == StreamStep::Kind::read && step.of_mlp() && !step.through.empty();
  });
  if (!some_read_through_norms) {
    throw HookError("unnormed_reading",
                    "this model's MLPs do not read the stream through norms; expected norms before the MLPs");
  }
  GridAxis layers = numbered_axis("layer", n_layers);
  std::vector<at::Tensor> by_layer;  // [row, quantity, pos] each
  const auto length = [](const at::Tensor& x) { return x.square().sum(-1).sqrt(); };
  for (std::int32_t layer = 0; layer < n_layers; ++layer) {
    layers.places.emplace_back();
    const StreamStep* const read = step_in(steps, StreamStep::Kind::read, &StreamStep::of_mlp, layer);
    if (!read->through.empty()) layers.places.back() = read->through.front();
    if (read->through.empty() || read->part != Part::dense_mlp) {
      by_layer.push_back(numberless({run.columns.rows(), 3, run.columns.positions()}));
      continue;
    }
    const NormedMlp mlp{weights_around(model, read->point), stream_norm_at(model, read->through.front()),
                        shown_before(read)};
    const auto [through_norm, unnormed, scaled] = readings_of(run, mlp, layer);
    const auto whole = length(through_norm);
    const auto cosine = (through_norm * unnormed).sum(-1) / (whole * length(unnormed));
    by_layer.push_back(at::stack(
        {cosine, length(unnormed - through_norm) / whole, length(scaled - through_norm) / whole}, 1));
  }
  GridAxis quantities{.name = "quantity", .labels = {"cosine", "error", "error with scale"}};
  return Grid(
      without_padding(at::stack(by_layer, 1), run.columns),
      {numbered_axis("row", run.columns.rows()), std::move(layers), std::move(quantities), run.columns.axis},
      {.title = "Reading an MLP's stream without its norm", .unit = "of the normed reading"});
}

}  // namespace hooked
