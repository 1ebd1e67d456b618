#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "hooked/core/model_config.h"

namespace hooked {

/// The inverse frequencies of one kind of layer: float64 in float64 models, else float32, with which models
/// were trained.
struct RotaryFrequencies {
  /// [rotary_dim / 2] after any scaling that does not depend on a row's length; under longrope [2, rotary_dim
  /// / 2], for short rows and for long ones.
  at::Tensor values;
  RopeScaling scaling;  ///< NoScaling on layers without one
};

/// The rotary frequencies of a model, computed at load: those of full layers and of windowed ones.
struct LayerFrequencies {
  RotaryFrequencies full;
  RotaryFrequencies windowed;
};

/// `windowed` layers take the local base if there is one, and then no scaling.
RotaryFrequencies rotary_frequencies(const ModelConfig& config, bool windowed);

/// The positions of a run's tokens.
struct TokenPlaces {
  at::Tensor positions;  ///< [batch or 1, pos] int64
  /// [batch or 1] int64: the length of each row for angles that depend on it; undefined: the length that its
  /// largest position gives.
  at::Tensor lengths;

  TokenPlaces(at::Tensor at, at::Tensor of_rows = {})  // NOLINT: positions are places
      : positions(std::move(at)), lengths(std::move(of_rows)) {}
};

/// Cosines and sines of the angles of one run, both [batch or 1, pos, 1, rotary_dim / 2].
struct RotaryAngles {
  at::Tensor cosine;
  at::Tensor sine;
};

/// The angles at those places, computed in the frequencies' precision, in `dtype`. If they depend on the
/// length of a row, its own is used, so that a row of a padded batch equals the row alone.
RotaryAngles rotary_angles(const RotaryFrequencies& frequencies, const TokenPlaces& places,
                           at::ScalarType dtype);

/// `x` [batch, pos, head, d_head] with its first (or last) rotary_dim dimensions rotated (Su et al. 2021).
at::Tensor rotate(const at::Tensor& x, const RotaryAngles& angles, const RotaryPositions& rotary);

/// The same in three operators, and one more if some dimensions are not rotated: on a GPU each is a launch.
/// Not while gradients are recorded.
at::Tensor rotate_in_few(const at::Tensor& x, const RotaryAngles& angles, const RotaryPositions& rotary);

/// Whether rotate_into supports `x`: float32 and bfloat16 on the CPU, with rows without gaps.
bool can_rotate_rows(const at::Tensor& x, const RotaryAngles& angles);

/// The same as rotate in one pass, by our own kernel, into `out` of the shape of `x`; rounded once in
/// bfloat16. Not while gradients are recorded.
void rotate_into(const at::Tensor& out, const at::Tensor& x, const RotaryAngles& angles,
                 const RotaryPositions& rotary);

}  // namespace hooked
