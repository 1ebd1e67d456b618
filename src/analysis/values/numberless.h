#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <limits>

namespace hooked {

/// A tensor filled with NaN, for missing numbers.
inline at::Tensor numberless(at::IntArrayRef sizes, const at::TensorOptions& like = at::kDouble) {
  return at::full(sizes, std::numeric_limits<double>::quiet_NaN(), like);
}

}  // namespace hooked
