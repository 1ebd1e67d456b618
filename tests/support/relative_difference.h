#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace hooked {

/// max|a - b| / max(1, max|b|) in float64; positions where both are the same infinity are equal; NaN is
/// infinite.
inline double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  if (a.sizes() != b.sizes()) return INFINITY;
  if (a.numel() == 0) return 0.0;
  const at::Tensor x = a.to(at::kCPU, at::kDouble), y = b.to(at::kCPU, at::kDouble);
  const at::Tensor same = x.isinf().logical_and(x == y);
  const at::Tensor gap = (x - y).abs().masked_fill(same, 0.0);
  const double largest = gap.max().item<double>();
  return std::isnan(largest) ? INFINITY
                             : largest / std::max(1.0, y.abs().masked_fill(same, 0.0).max().item<double>());
}

/// Allowed relative_difference between two ways to compute one thing in float64.
inline constexpr double kDoubleTolerance = 1e-12;
inline constexpr double kFloatTolerance = 1e-5;

}  // namespace hooked
