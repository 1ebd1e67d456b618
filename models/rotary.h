#pragma once

#include <ATen/core/Tensor.h>

#include "hooked/core/model_config.h"

namespace hooked {

/// Inverse frequencies of a rotary embedding [rotary_dim / 2], float64 on the CPU, after any scaling.
/// `windowed` layers take the local base, and then no scaling.
at::Tensor rotary_frequencies(const ModelConfig& config, bool windowed);

/// Cosines and sines of the angles of one run, both [batch or 1, pos, 1, rotary_dim / 2].
struct RotaryAngles {
  at::Tensor cosine;
  at::Tensor sine;
};

/// The angles at `positions` [batch or 1, pos] int64 in `dtype`. They are computed in float32 (float64 for
/// float64), as the models were trained.
RotaryAngles rotary_angles(const ModelConfig& config, const at::Tensor& frequencies,
                           const at::Tensor& positions);

/// `x` [batch, pos, head, d_head] with its first rotary_dim dimensions turned (Su et al. 2021).
at::Tensor rotate(const at::Tensor& x, const RotaryAngles& angles, const RotaryConfig& rotary);

}  // namespace hooked
