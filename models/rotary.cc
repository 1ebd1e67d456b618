#include "models/rotary.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hooked {
namespace {

// Grattafiori et al. 2024: long wavelengths are stretched, short ones kept, those between interpolated.
at::Tensor scale_llama3(const at::Tensor& f, const RopeScaling& s) {
  const at::Tensor wavelength = 2.0 * std::numbers::pi / f;
  const double low_wavelength = s.original_n_ctx / s.low_freq_factor;
  const double high_wavelength = s.original_n_ctx / s.high_freq_factor;
  const at::Tensor kept =
      (s.original_n_ctx / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  const at::Tensor between = (1.0 - kept) * f / s.factor + kept * f;
  return at::where(wavelength > low_wavelength, f / s.factor,
                   at::where(wavelength < high_wavelength, f, between));
}

// YaRN, Peng et al. 2023: a ramp over the dimensions between stretched and kept frequencies.
at::Tensor scale_yarn(const at::Tensor& f, const RopeScaling& s, double dim, double base) {
  const auto dimension_of = [&](double rotations) {
    return dim * std::log(s.original_n_ctx / (rotations * 2.0 * std::numbers::pi)) / (2.0 * std::log(base));
  };
  double low = dimension_of(s.beta_fast);
  double high = dimension_of(s.beta_slow);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  if (low == high) high += 0.001;  // a ramp of no width would divide by zero
  const at::Tensor ramp = ((at::arange(f.size(0), f.options()) - low) / (high - low)).clamp(0.0, 1.0);
  return f / s.factor * ramp + f * (1.0 - ramp);
}

}  // namespace

at::Tensor rotary_frequencies(const ModelConfig& config, bool windowed) {
  const RotaryConfig& rotary = config.rotary;
  const bool local = windowed && rotary.local_base.has_value();
  const double base = local ? *rotary.local_base : rotary.base;
  const std::int64_t dim = config.rotary_dim();
  const at::Tensor f = at::pow(base, -at::arange(0, dim, 2, at::kDouble) / static_cast<double>(dim));
  if (local) return f;
  switch (rotary.scaling.kind) {
    case RopeScalingKind::linear:
      return f / rotary.scaling.factor;
    case RopeScalingKind::llama3:
      return scale_llama3(f, rotary.scaling);
    case RopeScalingKind::yarn:
      return scale_yarn(f, rotary.scaling, static_cast<double>(dim), base);
    case RopeScalingKind::none:
      break;
  }
  return f;
}

RotaryAngles rotary_angles(const ModelConfig& config, const at::Tensor& frequencies,
                           const at::Tensor& positions) {
  const at::ScalarType precision = config.dtype == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor f = frequencies.to(positions.device(), precision);
  const at::Tensor angles = positions.to(precision).unsqueeze(-1).unsqueeze(-1) * f;
  const RopeScaling& scaling = config.rotary.scaling;
  const double factor = scaling.kind == RopeScalingKind::yarn ? scaling.attention_factor : 1.0;
  return {(at::cos(angles) * factor).to(config.dtype), (at::sin(angles) * factor).to(config.dtype)};
}

at::Tensor rotate(const at::Tensor& x, const RotaryAngles& angles, const RotaryConfig& rotary) {
  const std::int64_t half = angles.cosine.size(-1);
  const at::Tensor turned = x.narrow(-1, 0, 2 * half);
  at::Tensor first, second;
  if (rotary.adjacent_pairs) {
    const at::Tensor pairs = turned.unflatten(-1, {half, 2});
    first = pairs.select(-1, 0);
    second = pairs.select(-1, 1);
  } else {
    first = turned.narrow(-1, 0, half);
    second = turned.narrow(-1, half, half);
  }
  const at::Tensor real = first * angles.cosine - second * angles.sine;
  const at::Tensor imaginary = second * angles.cosine + first * angles.sine;
  const at::Tensor rotated =
      rotary.adjacent_pairs ? at::stack({real, imaginary}, -1).flatten(-2) : at::cat({real, imaginary}, -1);
  if (2 * half == x.size(-1)) return rotated;
  return at::cat({rotated, x.narrow(-1, 2 * half, x.size(-1) - 2 * half)}, -1);
}

}  // namespace hooked
