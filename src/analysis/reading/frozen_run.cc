#include "analysis/reading/frozen_run.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "analysis/places/cache_reading.h"
#include "analysis/stream/logit_reading.h"
#include "hooked/core/block_place.h"
#include "hooked/hooks/act.h"
#include "hooks/norm_points.h"

namespace hooked {
namespace {

at::Tensor wide(const at::Tensor& x) { return x.to(at::kCPU, at::kDouble); }

/// The maps to values, [head, d_model, d_value], and their constant part without any stream, [head, d_value],
/// before the divisions by norms on the way.
struct ValueMaps {
  at::Tensor W_V, bias;
};

ValueMaps value_maps(const HookedTransformer& model, std::int32_t layer) {
  const auto& config = model.config();
  const auto weights = model.weights();
  if (!config.latent_attention()) {
    const auto times = config.heads_per_kv(layer);
    return {wide(weights.W_V(layer)).repeat_interleave(times, 0),
            wide(weights.b_V(layer)).repeat_interleave(times, 0)};
  }
  // After the norm of the latents, which is an RMSNorm, there is a map without a bias.
  const auto path = fmt::format("{}.attn", BlockPlace{config.main_stack(), layer}.path());
  auto gain = wide(weights[path + ".kv_latent_norm.w"]);  // [latent]
  if (config.norm_offset) gain = gain + 1.0;
  const auto behind = gain.unsqueeze(-1) * wide(weights.W_UV(layer));  // [head, latent, d_value]
  const auto bias =
      config.qkv_bias ? wide(weights[path + ".b_DKV"]) : at::zeros({config.latent->d_kv}, at::kDouble);
  return {at::matmul(wide(weights.W_DKV(layer)), behind), at::matmul(bias, behind)};
}

/// The divisor of each key's values on their way, [row, head or one, key]; undefined: none.
at::Tensor value_scale(const RunReading& run, std::int32_t layer) {
  const auto& config = run.model.config();
  if (config.latent_attention()) return run(act::kv_latent_norm_scale(layer)).transpose(1, 2);
  if (!config.value_norm) return {};
  const auto scale = run(act::v_norm_scale(layer)).squeeze(-1);  // [row, key, kv_head]
  return scale.repeat_interleave(config.heads_per_kv(layer), 2).transpose(1, 2);
}

}  // namespace

at::Tensor FrozenAttention::of(const at::Tensor& streams, std::int64_t head,
                               std::int64_t with_constant) const {
  const auto attended = pattern.select(1, head);  // [row, query, key]
  const auto read = at::matmul(before ? before->of(streams) : streams, W_V[head]);
  auto z = at::einsum("rqk,srkw->srqw", {attended, read});
  if (with_constant >= 0) z[with_constant] += attended.sum(-1, true) * constant[head];
  if (gate.defined()) z = z * gate.select(2, head);
  const auto out = at::matmul(z, W_O[head]);
  return behind ? behind->of(out) : out;
}

at::Tensor FrozenAttention::always() const {
  auto written = bias.view({1, 1, -1}).expand({pattern.size(0), pattern.size(2), -1});
  if (behind) written = behind->of(written);
  return behind_bias.defined() ? written + behind_bias : written;
}

FrozenAttention frozen_attention(const RunReading& run, std::int32_t layer, const char* where) {
  const auto& config = run.model.config();
  const auto weights = run.model.weights();
  const auto name = [&](Site site) {
    return ActivationName{.site = site, .stack = config.main_stack(), .layer = layer};
  };
  require_all_positions(run.cache, name(Site::pattern), where);
  auto [W_V, constant] = value_maps(run.model, layer);
  FrozenAttention made{.before = {},
                       .behind = {},
                       .W_V = W_V,
                       .W_O = wide(weights.W_O(layer)),
                       .constant = constant,
                       .bias = wide(weights.b_O(layer)),
                       .behind_bias = {},
                       .pattern = wide(run.cache[Address(name(Site::pattern))]),
                       .gate = {}};
  if (const auto scale = value_scale(run, layer); scale.defined())
    made.pattern = made.pattern / scale.unsqueeze(2);
  if (config.gated_heads) made.gate = run(name(Site::head_gate)).sigmoid();
  const std::vector<StreamStep> steps = stream_of(config);
  const auto of_attention = [&](StreamStep::Kind kind) {
    return step_in(steps, kind, &StreamStep::mixes_own_tokens, layer)->through;
  };
  for (const ActivationName& normalized : of_attention(StreamStep::Kind::read)) {
    const auto norm = stream_norm_at(run.model, normalized);
    made.before = run.frozen(norm);
    if (norm.bias.defined()) made.constant = made.constant + at::einsum("m,hmw->hw", {norm.bias, made.W_V});
  }
  for (const ActivationName& normalized : of_attention(StreamStep::Kind::write)) {
    const auto norm = stream_norm_at(run.model, normalized);
    made.behind = run.frozen(norm);
    made.behind_bias = norm.bias;
  }
  return made;
}

AllLogits::AllLogits(const RunReading& run) : run_(run), affine_(final_affine(run.model)) {
  const auto& config = run.model.config();
  const auto weights = run.model.weights();
  const auto scale = config.unembedding->scale;
  W_U_ = weights.W_U().to(at::kCPU, at::kDouble) * scale;
  b_U_ = weights.b_U().to(at::kCPU, at::kDouble) * scale;
  if (config.final_norm == NormKind::none) return;
  norm_ = FrozenNorm{.centres = config.final_norm == NormKind::layer_norm,
                     .scale = run(scale_of(final_norm_of(config))),
                     .weight = affine_.weight};
}

at::Tensor AllLogits::of(const at::Tensor& streams) const {
  return at::matmul(norm_ ? norm_->of(streams) : streams * affine_.weight, W_U_);
}

at::Tensor AllLogits::of_biases() const { return at::matmul(affine_.bias, W_U_) + b_U_; }

at::Tensor AllLogits::shown() const {
  const auto [logits, unembedded] = shown_end(run_);
  if (logits.defined()) return logits.to(at::kCPU, at::kDouble);
  return unembedded.defined() ? at::matmul(unembedded, W_U_) + b_U_ : at::Tensor();
}

}  // namespace hooked
