#pragma once

#include <ATen/core/Tensor.h>

#include "hooked/core/axis.h"

namespace hooked::weights {

/// A weight whose dimensions are known by name, so that no code asks a size what an axis means: d_mlp may
/// equal d_model, and d_vocab may equal either.
struct NamedTensor {
  at::Tensor values;
  AxisList axes;
};

/// `weight` minus its mean over `over`. Same layout.
at::Tensor centered(const NamedTensor& weight, Axis over);

/// `weight` with every slice along `along` multiplied by its entry of `factors` [along]. Same layout.
at::Tensor scaled(const NamedTensor& weight, Axis along, const at::Tensor& factors);

/// Sum of the slices along `over`, each times its entry of `coefficients` [over]: the layout without that
/// axis.
at::Tensor weighted_sum(const NamedTensor& weight, Axis over, const at::Tensor& coefficients);

}  // namespace hooked::weights
