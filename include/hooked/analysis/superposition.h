#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// How directions share a space (Elhage et al. 2022, "Toy models of superposition"). For directions w_i with
/// unit vectors u_i; all numbers float64.
struct Superposition {
  at::Tensor squared_length;  ///< [feature]: |w_i|^2; near 1 if a feature of a trained model is represented
  at::Tensor interference;    ///< [feature]: the sum over the others of (u_i . w_j)^2; 0: orthogonal to all
  /// [feature]: |w_i|^2 over the sum over all features of (u_i . w_j)^2, its share of the space: 1 alone, 1/2
  /// for one of an antipodal pair. They add up to at most the dimensions that are spanned.
  at::Tensor dimensions;
  at::Tensor nearest;             ///< [feature] int64: the other one with the largest cosine by size
  at::Tensor nearest_cosine;      ///< [feature]: that cosine; NaN for a single feature
  double largest_cosine;          ///< by size, of all pairs; NaN for a single feature
  double mean_squared_cosine;     ///< over all pairs; NaN for a single feature
  double dimensions_per_feature;  ///< d over the sum of all |w_i|^2: of unit vectors d over their number
  double welch_bound;             ///< welch_bound(features, d)
};

/// For directions [feature, d], of any length but zero, in blocks of rows: never all pairs at once. Throws
/// ShapeError for other shapes and for a direction of zeros.
Superposition superposition(const at::Tensor& directions);

/// The lower bound of the largest cosine by size of `features` unit vectors in d dimensions: sqrt((features -
/// d) / (d (features - 1))), 0 if they can be orthogonal (Welch 1974). Its square is also a lower bound of
/// the mean squared cosine of pairs. Throws ShapeError for sizes below 1.
double welch_bound(std::int64_t features, std::int64_t d);

/// The cosines of all pairs, [feature, feature] float64, 1 on the diagonal. Throws as superposition.
at::Tensor pairwise_cosines(const at::Tensor& directions);

/// How features are active. For designated initialisers.
struct FeatureActivity {
  double sparsity = 0.9;         ///< the probability that a feature is zero, independently for each
  double mean = 0.5;             ///< of the value of an active one; by default uniform from 0 to 1
  double mean_square = 1.0 / 3;  ///< of its square
};

/// What other features add to the reading u_i . x of x = the sum of the active features' w_j.
struct ExpectedInterference {
  at::Tensor mean;      ///< [feature]
  at::Tensor variance;  ///< [feature]
  at::Tensor square;    ///< [feature]: of the square, variance + mean^2
  /// [feature]: the probability that other features interfere at all: that any of those that are not
  /// orthogonal to it is active
  at::Tensor any;
};

/// The exact expected interference between features of `directions` [feature, d] if each is active
/// independently, from the cosines. With sparsity s the variance falls as 1 - s: this is why superposition
/// pays. Throws as superposition, and ShapeError for a sparsity that is not a probability and a mean square
/// below the square of the mean.
ExpectedInterference expected_interference(const at::Tensor& directions,
                                           const FeatureActivity& activity = {});

}  // namespace hooked
