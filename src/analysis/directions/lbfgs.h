#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace hooked {

/// A function of a vector of float64, and its gradient there.
struct ValueAndGradient {
  double value;
  at::Tensor gradient;
};
using SmoothFunction = std::function<ValueAndGradient(const at::Tensor& at)>;

/// How a minimum is looked for. For designated initialisers.
struct MinimumOptions {
  /// About the second derivative along each number, above zero: the scale of the first steps.
  at::Tensor curvature;
  double tolerance;  ///< ends when no part of the gradient is larger
  std::int64_t most_iterations;
};

/// Where the search ended.
struct Minimum {
  at::Tensor at;
  std::int64_t iterations;
  bool converged;
};

/// The minimum of a convex function by L-BFGS (Nocedal 1980; Liu and Nocedal 1989), from `start`.
Minimum minimum_of(const SmoothFunction& function, at::Tensor start, const MinimumOptions& options);

}  // namespace hooked
