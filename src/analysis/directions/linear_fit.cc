#include "hooked/analysis/linear_fit.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "analysis/directions/moments.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

/// The moments of vectors with their classes, one-hot.
Moments moments_of_classes(const at::Tensor& x, const at::Tensor& labels, std::string_view where) {
  const at::Tensor rows = checked_vectors(x, where);
  const std::int64_t classes = checked_classes(labels, rows.size(0), where);
  Moments moments(rows.size(1), classes);
  moments.add(rows, one_hot_of(labels, classes));
  return moments;
}

void require_components(std::int64_t count, std::int64_t most, std::string_view where) {
  if (count >= 1 && count <= most) return;
  throw ShapeError(where,
                   fmt::format("rows of this number and size have {} components at most; expected 1 to "
                               "{}, got {}",
                               most, most, count));
}

/// Differences [row, d] of checked pairs.
at::Tensor differences_of(const at::Tensor& positive, const at::Tensor& negative, std::string_view where) {
  const at::Tensor one = checked_vectors(positive, where), other = checked_vectors(negative, where);
  if (one.sizes() != other.sizes()) {
    throw ShapeError(
        where, fmt::format("both sides of the pairs have a vector for each; expected {} twice, "
                           "got {} and {}",
                           shape_text(one.sizes()), shape_text(one.sizes()), shape_text(other.sizes())));
  }
  return one - other;
}

/// The first components of rows [row, d]. Of fewer rows than numbers in each, those of the products of rows.
Components components_of_rows(const at::Tensor& rows, const at::Tensor& mean, std::int64_t degrees,
                              std::int64_t count) {
  const std::int64_t n = rows.size(0), d = rows.size(1);
  if (n >= d) return components_of(rows.t().matmul(rows), mean, degrees, count);
  Components found = components_of(rows.matmul(rows.t()), mean, degrees, count);
  const at::Tensor along = found.vectors.matmul(rows);  // [component, d]
  const at::Tensor length = along.norm(2, at::IntArrayRef{1}, /*keepdim=*/true);
  found.vectors = at::where(length.gt(0), along / length, at::zeros_like(along));
  return found;
}

}  // namespace

at::Tensor LinearFit::scores(const at::Tensor& x) const {
  if (!x.defined() || x.dim() == 0 || x.size(-1) != weight.size(1)) {
    throw ShapeError("LinearFit", fmt::format("vectors do not fit; expected [.., {}], got {}", weight.size(1),
                                              x.defined() ? shape_text(x.sizes()) : "an undefined tensor"));
  }
  return x.detach().to(at::kCPU, at::kDouble).matmul(weight.t()) + intercept;
}

at::Tensor LinearFit::classes_of(const at::Tensor& x) const {
  const at::Tensor found = scores(x);
  return weight.size(0) == 1 ? found.squeeze(-1).gt(0).to(at::kLong) : found.argmax(-1);
}

LinearFit ridge_regression(const at::Tensor& x, const at::Tensor& targets, const RidgeOptions& options) {
  constexpr const char* kWhere = "ridge_regression";
  const at::Tensor rows = checked_vectors(x, kWhere);
  if (!targets.defined() || targets.dim() < 1 || targets.dim() > 2 || targets.size(0) != rows.size(0)) {
    throw ShapeError(kWhere,
                     fmt::format("targets do not fit the rows; expected [{0}] or [{0}, output], got {1}",
                                 rows.size(0), targets.defined() ? shape_text(targets.sizes()) : "nothing"));
  }
  const at::Tensor y =
      checked_vectors((targets.dim() == 1 ? targets.unsqueeze(1) : targets).to(at::kDouble), kWhere);
  Moments moments(rows.size(1), y.size(1));
  moments.add(rows, y);
  return ridge_of(moments, options, kWhere);
}

LinearFit ridge_classifier(const at::Tensor& x, const at::Tensor& labels, const RidgeOptions& options) {
  return ridge_classifier_of(moments_of_classes(x, labels, "ridge_classifier"), options, "ridge_classifier");
}

LinearFit mean_difference(const at::Tensor& x, const at::Tensor& labels) {
  return mean_difference_of(moments_of_classes(x, labels, "mean_difference"));
}

at::Tensor separating_features(const at::Tensor& x, const at::Tensor& labels, std::int64_t count) {
  return separating_features_of(moments_of_classes(x, labels, "separating_features"), count,
                                "separating_features");
}

Components principal_components(const at::Tensor& x, std::int64_t count) {
  constexpr const char* kWhere = "principal_components";
  const at::Tensor rows = checked_vectors(x, kWhere);
  if (rows.size(0) < 2) throw ShapeError(kWhere, "one row has no variance; expected two rows or more, got 1");
  require_components(count, std::min(rows.size(0), rows.size(1)), kWhere);
  const at::Tensor mean = rows.mean(0);
  return signed_by_largest(components_of_rows(rows - mean, mean, rows.size(0) - 1, count));
}

Components contrast_components(const at::Tensor& positive, const at::Tensor& negative, std::int64_t count) {
  constexpr const char* kWhere = "contrast_components";
  const at::Tensor away = differences_of(positive, negative, kWhere);
  require_components(count, std::min(away.size(0), away.size(1)), kWhere);
  const at::Tensor zero = at::zeros({away.size(1)}, away.options());
  return signed_along(components_of_rows(away, zero, away.size(0) - 1, count), away.mean(0));
}

at::Tensor contrast_mean(const at::Tensor& positive, const at::Tensor& negative) {
  return differences_of(positive, negative, "contrast_mean").mean(0);
}

}  // namespace hooked
