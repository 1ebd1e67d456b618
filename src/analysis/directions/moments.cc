#include "analysis/directions/moments.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/diag.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

constexpr double kEps = std::numeric_limits<double>::epsilon();

/// The w of (A + alpha 1) w = b; without alpha the smallest of the least squares.
at::Tensor solved(const at::Tensor& A, const at::Tensor& b, double alpha) {
  if (alpha > 0) {
    const auto [L, failed] = at::linalg_cholesky_ex(A + alpha * at::eye(A.size(0), A.options()));
    if (failed.item<int>() == 0) return b.cholesky_solve(L);
  }
  const auto [values, vectors] = at::linalg_eigh(A);
  const double largest = values.size(0) == 0 ? 0 : std::max(0.0, values[-1].item<double>());
  const at::Tensor shifted = values + alpha;
  const at::Tensor inverse = at::where(values.gt(largest * kEps * static_cast<double>(A.size(0))),
                                       shifted.reciprocal(), at::zeros({}, A.options()));
  return vectors.matmul(inverse.unsqueeze(1) * vectors.t().matmul(b));
}

/// Components whose signs are turned where `signs` [component] is below zero.
Components turned(Components found, const at::Tensor& signs) {
  found.vectors = at::where(signs.lt(0).unsqueeze(1), -found.vectors, found.vectors);
  return found;
}

}  // namespace

Moments::Moments(std::int64_t d, std::int64_t targets)
    : mean_(at::zeros({d}, at::kDouble)),
      targets_(at::zeros({targets}, at::kDouble)),
      products_(at::zeros({d, d}, at::kDouble)),
      crossed_(at::zeros({d, targets}, at::kDouble)) {}

void Moments::add(const at::Tensor& x, const at::Tensor& y) {
  const std::int64_t count = x.size(0);
  if (count == 0) return;
  const at::Tensor mean = x.mean(0), target = y.mean(0);
  const at::Tensor around = x - mean;
  const auto n = static_cast<double>(rows_), m = static_cast<double>(count);
  const at::Tensor step = mean - mean_, target_step = target - targets_;
  products_.addmm_(around.t(), around);
  products_.addr_(step, step, 1, n * m / (n + m));
  crossed_.addmm_(around.t(), y - target);
  crossed_.addr_(step, target_step, 1, n * m / (n + m));
  mean_ += step * (m / (n + m));
  targets_ += target_step * (m / (n + m));
  rows_ += count;
}

Moments Moments::of_features(const at::Tensor& features) const {
  Moments some(0, 0);
  some.rows_ = rows_;
  some.mean_ = mean_.index_select(0, features);
  some.targets_ = targets_;
  some.products_ = products_.index_select(0, features).index_select(1, features);
  some.crossed_ = crossed_.index_select(0, features);
  return some;
}

Moments Moments::with_signs() const {
  Moments same = *this;
  same.targets_ = targets_ * 2 - 1;
  same.crossed_ = crossed_ * 2;
  return same;
}

// A sum over a class, of x minus the mean, is that of its one-hot target.
at::Tensor Moments::class_means() const {
  return mean_ + crossed_.t() / (targets_ * static_cast<double>(rows_)).unsqueeze(1);
}

at::Tensor checked_vectors(const at::Tensor& x, std::string_view where) {
  if (!x.defined() || x.dim() != 2 || x.size(0) == 0 || x.size(1) == 0 || !x.is_floating_point()) {
    throw ShapeError(where, fmt::format("vectors are missing or of another form; expected floating numbers "
                                        "[row, d] with a row, got {}; give one row for each vector",
                                        x.defined() ? shape_text(x.sizes()) : "an undefined tensor"));
  }
  at::Tensor taken = x.detach().to(at::kCPU, at::kDouble);
  const at::Tensor finite = at::isfinite(taken).all(1);
  if (!finite.all().item<bool>()) {
    const auto row = finite.logical_not().to(at::kLong).argmax().item<std::int64_t>();
    throw ShapeError(where, fmt::format("row {} has a number that is not finite (NaN or infinite); expected "
                                        "finite numbers; leave the row out, or find what made it (padding "
                                        "has NaN)",
                                        row));
  }
  return taken;
}

std::int64_t checked_classes(const at::Tensor& labels, std::int64_t rows, std::string_view where) {
  if (!labels.defined() || labels.dim() != 1 || labels.size(0) != rows ||
      !c10::isIntegralType(labels.scalar_type(), /*includeBool=*/true)) {
    throw ShapeError(where,
                     fmt::format("labels do not fit the rows; expected integers [{}], got {}", rows,
                                 labels.defined() ? fmt::format("{} {}", dtype_text(labels.scalar_type()),
                                                                shape_text(labels.sizes()))
                                                  : "an undefined tensor"));
  }
  const at::Tensor numbers = labels.to(at::kCPU, at::kLong);
  if (const auto least = numbers.min().item<std::int64_t>(); least < 0) {
    throw ShapeError(where, fmt::format("a label is below zero; expected classes from 0, got {}", least));
  }
  const std::int64_t classes = numbers.max().item<std::int64_t>() + 1;
  constexpr std::int64_t kMost = 10000;
  if (classes > kMost) {
    throw ShapeError(
        where, fmt::format("a label is {}; expected classes from 0 to {} at most", classes - 1, kMost - 1));
  }
  const at::Tensor counts = numbers.bincount({}, classes);
  const std::int64_t first = counts.nonzero()[0].item<std::int64_t>();
  if (counts[first].item<std::int64_t>() == rows) {
    throw ShapeError(where, fmt::format("all {} rows are of class {}; expected rows of two classes or more; "
                                        "nothing tells one class from no other",
                                        rows, first));
  }
  if (const at::Tensor missing = counts.eq(0); missing.any().item<bool>()) {
    throw ShapeError(where, fmt::format("class {} of {} has no row; expected rows of each class; number the "
                                        "classes that occur from 0",
                                        missing.to(at::kLong).argmax().item<std::int64_t>(), classes));
  }
  return classes;
}

at::Tensor one_hot_of(const at::Tensor& labels, std::int64_t classes) {
  return at::one_hot(labels.to(at::kCPU, at::kLong), classes).to(at::kDouble);
}

// As scikit-learn's StandardScaler tells a constant feature from one that hardly varies.
at::Tensor scales_of(const at::Tensor& mean, const at::Tensor& variance, std::int64_t rows) {
  const auto n = static_cast<double>(rows);
  const at::Tensor constant = variance.le(n * kEps * variance + (n * mean * kEps).square());
  return at::where(constant, at::ones_like(variance), variance.sqrt());
}

LinearFit ridge_of(const Moments& moments, const RidgeOptions& options, std::string_view where) {
  if (!(options.alpha >= 0)) {
    throw ConfigError(where, fmt::format("alpha is a penalty; expected 0 or more, got {}", options.alpha));
  }
  const auto n = static_cast<double>(moments.rows());
  at::Tensor products = moments.products(), crossed = moments.with_targets();
  // Without an intercept nothing is centred, unless standardising does.
  if (!options.intercept && !options.standardize) {
    products = products + n * moments.mean().outer(moments.mean());
    crossed = crossed + n * moments.mean().outer(moments.target_mean());
  }
  at::Tensor scale;
  if (options.standardize) {
    scale = scales_of(moments.mean(), moments.products().diagonal() / n, moments.rows());
    products = products / scale.outer(scale);
    crossed = crossed / scale.unsqueeze(1);
  }
  at::Tensor weight = solved(products, crossed, options.alpha).t();  // [target, d]
  if (options.standardize) weight = weight / scale;
  at::Tensor intercept = at::zeros_like(moments.target_mean());
  if (options.standardize || options.intercept) intercept = -weight.matmul(moments.mean());
  if (options.intercept) intercept = intercept + moments.target_mean();
  return {.weight = weight.contiguous(), .intercept = intercept};
}

LinearFit ridge_classifier_of(const Moments& moments, const RidgeOptions& options, std::string_view where) {
  const LinearFit fit = ridge_of(moments.with_signs(), options, where);
  if (fit.weight.size(0) > 2) return fit;
  return {.weight = fit.weight.slice(0, 1), .intercept = fit.intercept.slice(0, 1)};
}

LinearFit mean_difference_of(const Moments& moments) {
  const at::Tensor means = moments.class_means();
  if (means.size(0) == 2) {
    const at::Tensor weight = (means[1] - means[0]).unsqueeze(0);
    return {.weight = weight, .intercept = -weight.matmul((means[0] + means[1]) / 2)};
  }
  const at::Tensor weight = means - moments.mean();
  return {.weight = weight, .intercept = -weight.matmul(moments.mean()) - weight.square().sum(1) / 2};
}

at::Tensor separating_features_of(const Moments& moments, std::int64_t count, std::string_view where) {
  const std::int64_t d = moments.mean().size(0);
  if (count < 1 || count > d) {
    throw ConfigError(where, fmt::format("a sparse probe reads some of the {} features; expected 1 to {}, "
                                         "got {}",
                                         d, d, count));
  }
  // The mean of all others follows from that of all.
  const at::Tensor away = (moments.class_means() - moments.mean()) / (1 - moments.target_mean()).unsqueeze(1);
  return std::get<1>(std::get<0>(away.abs().max(0)).sort(/*stable=*/true, 0, /*descending=*/true))
      .slice(0, 0, count);
}

Components components_of(const at::Tensor& products, const at::Tensor& mean, std::int64_t rows,
                         std::int64_t count) {
  const auto [values, vectors] = at::linalg_eigh(products);
  const auto divisor = static_cast<double>(std::max<std::int64_t>(1, rows));
  const at::Tensor variance = values.flip(0).slice(0, 0, count).clamp_min(0) / divisor;
  const at::Tensor all = products.diagonal().sum() / divisor;
  return {.vectors = vectors.t().flip(0).slice(0, 0, count).contiguous(),
          .variance = variance,
          .share = at::where(all.gt(0), variance / all, at::zeros_like(variance)),
          .mean = mean};
}

Components signed_by_largest(Components found) {
  const at::Tensor largest = found.vectors.abs().argmax(1, /*keepdim=*/true);
  const at::Tensor signs = found.vectors.gather(1, largest).squeeze(1);
  return turned(std::move(found), signs);
}

Components signed_along(Components found, const at::Tensor& along) {
  const at::Tensor signs = found.vectors.matmul(along);
  return turned(std::move(found), signs);
}

LinearFit spread_over(const LinearFit& fit, const at::Tensor& features, std::int64_t d) {
  LinearFit all = fit;
  all.weight = at::zeros({fit.weight.size(0), d}, fit.weight.options()).index_copy(1, features, fit.weight);
  return all;
}

}  // namespace hooked
