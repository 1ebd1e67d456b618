#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "hooked/analysis/linear_fit.h"

namespace hooked {

/// Means and sums of products of vectors and of targets, over rows that are added a few at a time and not
/// kept; in float64 around the running mean (Chan et al. 1979), so that a large mean costs no digits.
class Moments {
 public:
  Moments(std::int64_t d, std::int64_t targets);
  /// Bytes that the moments of vectors of this size take.
  static std::int64_t bytes(std::int64_t d, std::int64_t targets) { return 8 * (d + 1) * (d + targets + 1); }

  /// x [row, d] and y [row, target], float64.
  void add(const at::Tensor& x, const at::Tensor& y);

  std::int64_t rows() const noexcept { return rows_; }
  const at::Tensor& mean() const& noexcept { return mean_; }             ///< [d]
  const at::Tensor& target_mean() const& noexcept { return targets_; }   ///< [target]
  const at::Tensor& products() const& noexcept { return products_; }     ///< [d, d], around the means
  const at::Tensor& with_targets() const& noexcept { return crossed_; }  ///< [d, target], around the means

  /// Of some features only.
  Moments of_features(const at::Tensor& features) const;
  /// With targets of -1 and 1 where they were 0 and 1.
  Moments with_signs() const;
  /// The means of the rows of each class, [class, d], if the targets are one-hot.
  at::Tensor class_means() const;

 private:
  std::int64_t rows_ = 0;
  at::Tensor mean_, targets_, products_, crossed_;
};

/// x [row, d] in float64 on the CPU. Throws ShapeError in the name of `where` for another shape, without
/// rows, and for numbers that are not finite.
at::Tensor checked_vectors(const at::Tensor& x, std::string_view where);
/// How many classes labels [row] have; throws ShapeError for what linear_fit.h excludes.
std::int64_t checked_classes(const at::Tensor& labels, std::int64_t rows, std::string_view where);
/// Labels as [row, class] float64.
at::Tensor one_hot_of(const at::Tensor& labels, std::int64_t classes);

/// Fits from moments. Those of classes are of one-hot targets.
LinearFit ridge_of(const Moments& moments, const RidgeOptions& options, std::string_view where);
LinearFit ridge_classifier_of(const Moments& moments, const RidgeOptions& options, std::string_view where);
LinearFit mean_difference_of(const Moments& moments);
at::Tensor separating_features_of(const Moments& moments, std::int64_t count, std::string_view where);
/// The first components of symmetric products [d, d] of `rows` rows.
Components components_of(const at::Tensor& products, const at::Tensor& mean, std::int64_t rows,
                         std::int64_t count);

/// With signs such that each component's largest entry by size is above zero, or that none of them points
/// against `along` [d].
Components signed_by_largest(Components found);
Components signed_along(Components found, const at::Tensor& along);

/// Standard deviations by which features are divided, [d]: 1 for a constant one.
at::Tensor scales_of(const at::Tensor& mean, const at::Tensor& variance, std::int64_t rows);

/// The fit to all `d` features of one to some of them: the other weights are 0.
LinearFit spread_over(const LinearFit& fit, const at::Tensor& features, std::int64_t d);

}  // namespace hooked
