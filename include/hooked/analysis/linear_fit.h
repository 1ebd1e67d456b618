#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

// Linear functions fitted to vectors, and components of vectors, in float64 on the CPU. All take x [row, d]
// of any floating dtype, and throw ShapeError for other shapes, without rows, and for a number in x that is
// not finite. Labels are int64 [row], from 0 to one below the number of classes; at least two classes must
// occur, and none below the largest may be missing (ShapeError).

/// Numbers that are linear in a vector: weight x + intercept. A fit of two classes has one output, above zero
/// for class 1; one of more classes has an output for each, and the largest says which.
struct LinearFit {
  at::Tensor weight;            ///< [output, d] float64
  at::Tensor intercept;         ///< [output] float64
  std::int64_t iterations = 0;  ///< of logistic regression; else 0
  bool converged = true;        ///< whether logistic regression reached its tolerance

  /// [.., output] float64 of vectors [.., d].
  at::Tensor scores(const at::Tensor& x) const;
  /// The class of each vector [.., d], int64 [..], if the outputs are those of classes.
  at::Tensor classes_of(const at::Tensor& x) const;
};

/// How features are prepared, and the penalty. For designated initialisers.
struct RidgeOptions {
  /// Of the squared weights, added to the sum (not the mean) of squared errors; 0: least squares, the
  /// smallest weights of several that fit equally.
  double alpha = 1.0;
  bool intercept = true;  ///< fitted, without a penalty; else 0
  /// Fit to each feature minus its mean, over its standard deviation; a constant one is only centred. The
  /// returned weights are those of x as it is.
  bool standardize = false;
};

/// Ridge regression in closed form: scikit-learn's Ridge (after its StandardScaler, if asked for). `targets`
/// [row] or [row, output]. Throws ConfigError for a negative alpha.
LinearFit ridge_regression(const at::Tensor& x, const at::Tensor& targets, const RidgeOptions& options = {});

/// Ridge regression of -1 and 1 for each class: scikit-learn's RidgeClassifier.
LinearFit ridge_classifier(const at::Tensor& x, const at::Tensor& labels, const RidgeOptions& options = {});

/// How logistic regression is fitted. For designated initialisers.
struct LogisticOptions {
  double c = 1.0;            ///< scikit-learn's C: the inverse of the penalty of the squared weights
  bool intercept = true;     ///< as RidgeOptions
  bool standardize = false;  ///< as RidgeOptions
  /// Ends when no part of the gradient is larger, as a share of the largest one at zero weights.
  double tolerance = 1e-9;
  std::int64_t most_iterations = 10000;  ///< then `converged` is false
};

/// Logistic regression, of several classes multinomial, by L-BFGS: scikit-learn's LogisticRegression, to
/// convergence. Throws ConfigError for a C that is not above zero.
LinearFit logistic_regression(const at::Tensor& x, const at::Tensor& labels,
                              const LogisticOptions& options = {});

/// The difference of the two classes' means, and half their distance as the intercept; of more classes, each
/// mean's difference from the mean of all rows, with intercepts such that the nearest mean has the largest
/// output.
LinearFit mean_difference(const at::Tensor& x, const at::Tensor& labels);

/// The `count` features whose class means differ most (of a class and all others), largest first: those of a
/// k-sparse probe (Gurnee et al. 2023, "Finding Neurons in a Haystack"). int64 [count].
at::Tensor separating_features(const at::Tensor& x, const at::Tensor& labels, std::int64_t count);

/// Principal components.
struct Components {
  at::Tensor vectors;   ///< [component, d] float64, of length 1, most variance first
  at::Tensor variance;  ///< [component]: of the rows along each, with row - 1 degrees of freedom
  at::Tensor share;     ///< [component]: of the variance of all rows
  at::Tensor mean;      ///< [d], which was subtracted; zeros if none was
};

/// The first `count` principal components of the rows, around their mean. A component's sign is such that its
/// largest entry by size is above zero. Throws ShapeError for fewer than two rows, and for more components
/// than the smaller of rows and d.
Components principal_components(const at::Tensor& x, std::int64_t count);

/// Components of the differences of pairs, `positive` minus `negative` [row, d], around zero: the directions
/// along which both sides differ from their middle (Zou et al. 2023, "Representation Engineering"). The sign
/// is such that the mean difference is not below zero. Throws as principal_components, also for sides of
/// different shapes, but takes a single pair.
Components contrast_components(const at::Tensor& positive, const at::Tensor& negative, std::int64_t count);

/// The mean of the differences of pairs, [d] float64. Throws as contrast_components.
at::Tensor contrast_mean(const at::Tensor& positive, const at::Tensor& negative);

}  // namespace hooked
