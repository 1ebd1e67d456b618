#include "hooked/analysis/superposition.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/pow.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

constexpr const char* kSuperposition = "superposition";
constexpr std::int64_t kPairsAtOnce = std::int64_t{1} << 23;  // 64 MiB of float64
constexpr double kOrthogonal = 1e-12;                         // cosines below are rounding

/// Directions and their unit vectors.
struct Directions {
  explicit Directions(const at::Tensor& given) {
    if (!given.defined() || given.dim() != 2 || given.numel() == 0) {
      throw ShapeError(kSuperposition,
                       fmt::format("these are not directions; expected [feature, d], got {}",
                                   given.defined() ? shape_text(given.sizes()) : "an undefined tensor"));
    }
    w = given.to(at::kDouble);
    length = w.square().sum(1).sqrt();
    if (!length.gt(0).all().item<bool>()) {
      throw ShapeError(kSuperposition, fmt::format("direction {} is zero; expected directions with a length",
                                                   length.argmin().item<std::int64_t>()));
    }
    unit = w / length.unsqueeze(1);
  }

  std::int64_t features() const { return w.size(0); }

  /// Calls `use` with u_i . w_j for a few features i at a time, in order, and all j (zero if i = j).
  void by_rows(const std::function<void(const at::Tensor& products)>& use) const {
    const auto step = std::max<std::int64_t>(1, kPairsAtOnce / features());
    for (std::int64_t begin = 0; begin < features(); begin += step) {
      auto products = at::matmul(unit.slice(0, begin, begin + step), w.t());
      products.diagonal(begin).zero_();
      use(products);
    }
  }

  at::Tensor w, unit;  // [feature, d]
  at::Tensor length;   // [feature]
};

}  // namespace

double welch_bound(std::int64_t features, std::int64_t d) {
  if (features < 1 || d < 1) {
    throw ShapeError("welch_bound", fmt::format("there are no such vectors; expected at least 1 of each, got "
                                                "{} features and {} dimensions",
                                                features, d));
  }
  if (features <= d) return 0.0;
  const auto n = static_cast<double>(features), size = static_cast<double>(d);
  return std::sqrt((n - size) / (size * (n - 1.0)));
}

at::Tensor pairwise_cosines(const at::Tensor& directions) {
  const Directions all(directions);
  return at::matmul(all.unit, all.unit.t());
}

Superposition superposition(const at::Tensor& directions) {
  const Directions all(directions);
  const auto features = all.features();
  std::vector<at::Tensor> interference, nearest, nearest_cosine;
  double sum_of_squares = 0.0;
  all.by_rows([&](const at::Tensor& products) {
    interference.push_back(products.square().sum(1));
    const auto cosines = products / all.length;
    sum_of_squares += cosines.square().sum().item<double>();
    nearest.push_back(std::get<1>(cosines.abs().max(1)));
    nearest_cosine.push_back(cosines.gather(1, nearest.back().unsqueeze(1)).squeeze(1));
  });
  const double none = std::numeric_limits<double>::quiet_NaN();
  const auto squared = all.length.square();
  Superposition found{
      .squared_length = squared,
      .interference = at::cat(interference),
      .dimensions = {},
      .nearest = at::cat(nearest),
      .nearest_cosine = at::cat(nearest_cosine),
      .largest_cosine = none,
      .mean_squared_cosine = none,
      .dimensions_per_feature = static_cast<double>(all.w.size(1)) / squared.sum().item<double>(),
      .welch_bound = welch_bound(features, all.w.size(1))};
  found.dimensions = squared / (squared + found.interference);
  if (features == 1) {
    found.nearest_cosine = found.nearest_cosine.mul(none);
    return found;
  }
  found.largest_cosine = found.nearest_cosine.abs().max().item<double>();
  found.mean_squared_cosine =
      sum_of_squares / (static_cast<double>(features) * static_cast<double>(features - 1));
  return found;
}

ExpectedInterference expected_interference(const at::Tensor& directions, const FeatureActivity& activity) {
  const bool probability = activity.sparsity >= 0.0 && activity.sparsity <= 1.0;
  if (!probability || !(activity.mean_square >= activity.mean * activity.mean)) {
    throw ShapeError("expected_interference",
                     fmt::format("no values are like that; expected a sparsity from 0 to 1 and a mean square "
                                 "of at least the mean's square, got {}, {} and {}",
                                 activity.sparsity, activity.mean_square, activity.mean));
  }
  const Directions all(directions);
  const double active = 1.0 - activity.sparsity;
  const double variance = active * activity.mean_square - active * active * activity.mean * activity.mean;
  std::vector<at::Tensor> means, variances, any;
  all.by_rows([&](const at::Tensor& products) {
    means.push_back(products.sum(1) * (active * activity.mean));
    variances.push_back(products.square().sum(1) * variance);
    const auto interfering = (products / all.length).abs().gt(kOrthogonal).sum(1).to(at::kDouble);
    any.push_back(1.0 - at::pow(activity.sparsity, interfering));
  });
  ExpectedInterference expected{
      .mean = at::cat(means), .variance = at::cat(variances), .square = {}, .any = at::cat(any)};
  expected.square = expected.variance + expected.mean.square();
  return expected;
}

}  // namespace hooked
