#pragma once

#include <ATen/core/Tensor.h>

#include "hooked/core/model_config.h"

namespace hooked {

/// The inverse frequencies of one kind of layer, on the CPU: float64 in float64 models, else float32, because
/// that is what models were trained with.
struct RotaryFrequencies {
  /// [rotary_dim / 2] after any scaling that does not depend on a row's length; under longrope
  /// [2, rotary_dim / 2], for short rows and for long ones.
  at::Tensor values;
  RopeScaling scaling;  ///< kind none on layers that take no scaling
};

/// `windowed` layers take the local base where there is one, and then no scaling.
RotaryFrequencies rotary_frequencies(const ModelConfig& config, bool windowed);

/// Cosines and sines of the angles of one run, both [batch or 1, pos, 1, rotary_dim / 2].
struct RotaryAngles {
  at::Tensor cosine;
  at::Tensor sine;
};

/// The angles at `positions` [batch or 1, pos] int64, computed in the frequencies' precision, in `dtype`.
/// Where they depend on the length of a row, that is its own largest position plus one, so that a row of a
/// padded batch equals the row alone.
RotaryAngles rotary_angles(const RotaryFrequencies& frequencies, const at::Tensor& positions,
                           at::ScalarType dtype);

/// `x` [batch, pos, head, d_head] with its first rotary_dim dimensions turned (Su et al. 2021).
at::Tensor rotate(const at::Tensor& x, const RotaryAngles& angles, const RotaryConfig& rotary);

}  // namespace hooked
