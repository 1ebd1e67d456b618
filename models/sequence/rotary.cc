#include "models/sequence/rotary.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "core/to_device.h"
#include "models/kernels/kernels.h"
#include "models/storage/each_row.h"

namespace hooked {
namespace {

// Grattafiori et al. 2024: long wavelengths are stretched, short ones kept, those between interpolated.
at::Tensor scale_llama3(const at::Tensor& f, const Llama3Scaling& s) {
  const at::Tensor wavelength = 2.0 * std::numbers::pi / f;
  const double low_wavelength = s.original_n_ctx / s.low_freq_factor;
  const double high_wavelength = s.original_n_ctx / s.high_freq_factor;
  const at::Tensor kept =
      (s.original_n_ctx / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  const at::Tensor between = (1.0 - kept) * f / s.factor + kept * f;
  return at::where(wavelength > low_wavelength, f / s.factor,
                   at::where(wavelength < high_wavelength, f, between));
}

// The parameters of a geometric series of frequencies.
struct Series {
  double dim;
  double base;
};

// YaRN, Peng et al. 2023: a ramp over the dimensions between stretched and kept frequencies.
at::Tensor scale_yarn(const at::Tensor& f, const YarnScaling& s, const Series& series) {
  const auto dimension_of = [&](double rotations) {
    return series.dim * std::log(s.original_n_ctx / (rotations * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(series.base));
  };
  double low = dimension_of(s.beta_fast);
  double high = dimension_of(s.beta_slow);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, series.dim - 1.0);
  if (low == high) high += 0.001;  // a ramp of no width would divide by zero
  const at::Tensor ramp = ((at::arange(f.size(0), f.options()) - low) / (high - low)).clamp(0.0, 1.0);
  return f / s.factor * ramp + f * (1.0 - ramp);
}

// Dynamic scaling multiplies the base by growth^(dim / (dim - 2)), and so the i-th frequency by
// growth^(-2i / (dim - 2)). `lengths` [batch or 1, 1, 1, 1] tokens.
at::Tensor stretch_by_length(const at::Tensor& f, const DynamicScaling& s, const at::Tensor& lengths) {
  const at::Tensor longest = lengths.to(f.scalar_type()).clamp_min(s.original_n_ctx);
  const at::Tensor growth = longest * (s.factor / s.original_n_ctx) - (s.factor - 1.0);
  const at::Tensor exponents =
      at::arange(f.size(0), f.options()) * (-1.0 / static_cast<double>(f.size(0) - 1));
  return f * at::pow(growth, exponents);
}

// For rotary that rotates forwards.
RotaryFrequencies forward_frequencies(const ModelConfig& config, bool windowed) {
  const RotaryPositions& rotary = *config.rotary();
  const bool local = windowed && rotary.local_base.has_value();
  const double base = local ? *rotary.local_base : rotary.base;
  const std::int64_t dim = config.rotary_dim_of(windowed);
  const at::ScalarType precision = config.dtype == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor exponents = at::arange(0, dim, 2, precision) / static_cast<double>(dim);
  at::Tensor f = at::pow(base, exponents).reciprocal();
  if (local) return {f, {}};
  if (rotary.turned_pairs > 0) {
    f = at::where(at::arange(f.size(0), at::kLong) < rotary.turned_pairs, f, at::zeros_like(f));
  }
  const RopeScaling& scaling = rotary.scaling;
  if (const auto* linear = std::get_if<LinearScaling>(&scaling)) return {f / linear->factor, scaling};
  if (const auto* llama3 = std::get_if<Llama3Scaling>(&scaling)) return {scale_llama3(f, *llama3), scaling};
  if (const auto* yarn = std::get_if<YarnScaling>(&scaling)) {
    return {scale_yarn(f, *yarn, {.dim = static_cast<double>(dim), .base = base}), scaling};
  }
  if (const auto* longrope = std::get_if<LongropeScaling>(&scaling)) {
    const at::Tensor divisors = at::stack(
        {at::tensor(longrope->short_factors, precision), at::tensor(longrope->long_factors, precision)});
    return {f / divisors, scaling};
  }
  return {f, scaling};
}

}  // namespace

RotaryFrequencies rotary_frequencies(const ModelConfig& config, bool windowed) {
  RotaryFrequencies frequencies = forward_frequencies(config, windowed);
  // After the scaling, which goes by wavelengths.
  if (config.rotary()->reversed) frequencies.values = -frequencies.values;
  return frequencies;
}

RotaryAngles rotary_angles(const RotaryFrequencies& frequencies, const TokenPlaces& places,
                           at::ScalarType dtype) {
  const at::Tensor& positions = places.positions;
  const auto* longrope = std::get_if<LongropeScaling>(&frequencies.scaling);
  const auto* yarn = std::get_if<YarnScaling>(&frequencies.scaling);
  // [rotary_dim / 2], or [batch or 1, 1, 1, same]
  at::Tensor f = to_device(frequencies.values, positions.device());
  at::Tensor beyond;  // longrope: [batch or 1, 1, 1, 1], long rows
  if (depends_on_length(frequencies.scaling)) {
    const at::Tensor lengths =
        (places.lengths.defined() ? places.lengths : positions.amax(-1).add(1)).view({-1, 1, 1, 1});
    if (longrope != nullptr) {
      beyond = lengths > longrope->original_n_ctx;
      f = at::where(beyond, f.select(0, 1), f.select(0, 0));
    } else {
      f = stretch_by_length(f, std::get<DynamicScaling>(frequencies.scaling), lengths);
    }
  }
  const at::Tensor angles = positions.to(f.scalar_type()).unsqueeze(-1).unsqueeze(-1) * f;
  const double magnitude = longrope != nullptr ? longrope->attention_factor
                           : yarn != nullptr   ? yarn->attention_factor
                                               : 1.0;
  const auto scaled = [&](const at::Tensor& x) { return magnitude == 1.0 ? x : x * magnitude; };
  at::Tensor cosine = scaled(at::cos(angles));
  at::Tensor sine = scaled(at::sin(angles));
  if (longrope != nullptr && longrope->long_attention_factor) {
    cosine = at::where(beyond, at::cos(angles) * *longrope->long_attention_factor, cosine);
    sine = at::where(beyond, at::sin(angles) * *longrope->long_attention_factor, sine);
  }
  return {cosine.to(dtype), sine.to(dtype)};
}

at::Tensor rotate(const at::Tensor& x, const RotaryAngles& angles, const RotaryPositions& rotary) {
  const std::int64_t half = angles.cosine.size(-1);
  const std::int64_t kept = x.size(-1) - 2 * half;
  const at::Tensor turned = x.narrow(-1, rotary.at_end ? kept : 0, 2 * half);
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
  if (kept == 0) return rotated;
  return rotary.at_end ? at::cat({x.narrow(-1, 0, kept), rotated}, -1)
                       : at::cat({rotated, x.narrow(-1, 2 * half, kept)}, -1);
}

at::Tensor rotate_in_few(const at::Tensor& x, const RotaryAngles& angles, const RotaryPositions& rotary) {
  const std::int64_t half = angles.cosine.size(-1), kept = x.size(-1) - 2 * half;
  at::Tensor out = at::empty(x.sizes(), x.options());
  // The rotated dimensions, in two halves or in pairs, and the parts of each pair.
  const std::int64_t part = rotary.adjacent_pairs ? -1 : -2;
  const auto pairs = [&](const at::Tensor& t) {
    const at::Tensor turned = t.narrow(-1, rotary.at_end ? kept : 0, 2 * half);
    return rotary.adjacent_pairs ? turned.unflatten(-1, {half, 2}) : turned.unflatten(-1, {2, half});
  };
  const at::Tensor from = pairs(x);
  at::Tensor to = pairs(out);
  at::mul_out(to, from, angles.cosine.unsqueeze(part));
  to.select(part, 0).addcmul_(from.select(part, 1), angles.sine, -1);
  to.select(part, 1).addcmul_(from.select(part, 0), angles.sine);
  if (kept > 0) {
    const std::int64_t first = rotary.at_end ? 0 : 2 * half;
    out.narrow(-1, first, kept).copy_(x.narrow(-1, first, kept));
  }
  return out;
}

bool can_rotate_rows(const at::Tensor& x, const RotaryAngles& angles) {
  const auto dtype = x.scalar_type();
  const auto rows_of_that = [&](const at::Tensor& t) {
    return t.device().is_cpu() && t.scalar_type() == dtype && t.numel() > 0 && t.stride(-1) == 1;
  };
  return (dtype == at::kFloat || dtype == at::kBFloat16) && rows_of_that(x) && rows_of_that(angles.cosine) &&
         rows_of_that(angles.sine) && kernels::own_kernels() != nullptr;
}

void rotate_into(const at::Tensor& out, const at::Tensor& x, const RotaryAngles& angles,
                 const RotaryPositions& rotary) {
  const kernels::RotaryRow how{.size = x.size(-1),
                               .half = angles.cosine.size(-1),
                               .at_end = rotary.at_end,
                               .adjacent_pairs = rotary.adjacent_pairs};
  const auto turn = [&]<class Number>(Number) {
    const auto turn_row = kernels::own_kernels()->rows<Number>().rotary;
    each_row<4>(x, {&out, &x, &angles.cosine, &angles.sine}, 1, [&](const std::array<char*, 4>& rows) {
      turn_row(how, reinterpret_cast<Number*>(rows[0]), reinterpret_cast<const Number*>(rows[1]),
               reinterpret_cast<const Number*>(rows[2]), reinterpret_cast<const Number*>(rows[3]));
    });
  };
  if (x.scalar_type() == at::kFloat) return turn(float());
  turn(std::uint16_t());
}

}  // namespace hooked
