#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/activation_name.h"

namespace hooked {

/// A norm with its scale held at given numbers: a linear map, after which its bias is added. Or, if it is
/// given its output for the stream, its derivative there, in which the scale changes as well.
struct FrozenNorm {
  bool centres = false;
  at::Tensor scale;            ///< [row, pos, 1]; all in one dtype
  at::Tensor weight = {};      ///< [d_model]; undefined: ones
  at::Tensor normalized = {};  ///< [row, pos, d_model]; undefined: the scale is held

  /// Its output for `x` [.., row, pos, d_model].
  at::Tensor of(const at::Tensor& x) const;
  /// Converts directions [row, pos, direction, d_model] after the norm to directions before it, such that x .
  /// before(d) is of(x) . d.
  at::Tensor before(const at::Tensor& directions) const;
};

/// One of the norms on the stream, before what reads it or after what writes to it.
struct StreamNorm {
  ActivationName scale;       ///< full name of the point that shows what it divides by
  ActivationName normalized;  ///< and of the one that shows the result
  NormKind kind;
  at::Tensor weight;  ///< [d_model] float64 without any offset; undefined: ones
  at::Tensor bias;    ///< [d_model] float64; undefined: none

  bool centres() const { return kind == NormKind::layer_norm; }
};

/// Whether a site is the scale of such a norm, and whether it is such a norm's output.
bool is_scale_of_stream(Site site);
bool is_normalized_stream(Site site);

/// The norm that has a point of this full name (its scale, or `normalized`).
StreamNorm stream_norm_at(const HookedTransformer& model, const ActivationName& point);

/// A block's number that multiplies the stream (ModelConfig::layer_scale), as a norm whose scale is always 1:
/// float64 on the CPU.
FrozenNorm scale_of_stream(const HookedTransformer& model, const BlockPlace& block);

/// `x` [.., d_model] minus its mean if `centres`.
at::Tensor centred(const at::Tensor& x, bool centres);

}  // namespace hooked
