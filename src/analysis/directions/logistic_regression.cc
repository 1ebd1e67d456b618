#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/var.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "analysis/directions/lbfgs.h"
#include "analysis/directions/moments.h"
#include "hooked/analysis/linear_fit.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr const char* kLogistic = "logistic_regression";

/// The penalised loss of weights [output * d] and intercepts [output], one after the other.
class LogisticLoss {
 public:
  LogisticLoss(at::Tensor x, at::Tensor targets, const LogisticOptions& options)
      : x_(std::move(x)), targets_(std::move(targets)), c_(options.c), intercept_(options.intercept) {}

  std::int64_t outputs() const { return targets_.size(1); }
  std::int64_t numbers() const { return outputs() * (x_.size(1) + (intercept_ ? 1 : 0)); }
  at::Tensor weight(const at::Tensor& at) const {
    return at.slice(0, 0, outputs() * x_.size(1)).view({outputs(), -1});
  }
  at::Tensor intercept(const at::Tensor& at) const {
    return intercept_ ? at.slice(0, outputs() * x_.size(1)) : at::zeros({outputs()}, at::kDouble);
  }

  ValueAndGradient operator()(const at::Tensor& at) const {
    const at::Tensor w = weight(at);
    const at::Tensor scores = x_.matmul(w.t()) + intercept(at);  // [row, output]
    at::Tensor loss, away;
    if (outputs() == 1) {
      loss = (at::softplus(scores) - targets_ * scores).sum();
      away = scores.sigmoid() - targets_;
    } else {
      const at::Tensor logs = at::log_softmax(scores, 1);
      loss = -(targets_ * logs).sum();
      away = logs.exp() - targets_;
    }
    const at::Tensor by_weight = away.t().matmul(x_) * c_ + w;
    at::Tensor gradient = by_weight.flatten();
    if (intercept_) gradient = at::cat({gradient, away.sum(0) * c_});
    return {.value = (loss * c_ + w.square().sum() / 2).item<double>(), .gradient = gradient};
  }

  /// A bound of the second derivative along each number.
  at::Tensor curvature() const {
    const at::Tensor of_weights = (x_.square().sum(0) * (c_ / 4) + 1).repeat({outputs()});
    if (!intercept_) return of_weights;
    return at::cat(
        {of_weights, at::full({outputs()}, c_ * static_cast<double>(x_.size(0)) / 4, x_.options())});
  }

 private:
  at::Tensor x_, targets_;
  double c_;
  bool intercept_;
};

}  // namespace

LinearFit logistic_regression(const at::Tensor& x, const at::Tensor& labels, const LogisticOptions& options) {
  if (!(options.c > 0)) {
    throw ConfigError(kLogistic,
                      fmt::format("C is the inverse of a penalty; expected more than 0, got {}", options.c));
  }
  const at::Tensor rows = checked_vectors(x, kLogistic);
  const std::int64_t classes = checked_classes(labels, rows.size(0), kLogistic);
  at::Tensor targets = one_hot_of(labels, classes);
  if (classes == 2) targets = targets.slice(1, 1);
  // With an intercept, which has no penalty, the centre of x does not matter; around the mean it is found
  // sooner. Without one it matters, unless standardising moves it.
  const bool centred = options.intercept || options.standardize;
  const at::Tensor mean = rows.mean(0);
  at::Tensor prepared = centred ? rows - mean : rows;
  at::Tensor scale;
  if (options.standardize) {
    scale = scales_of(mean, at::var(rows, at::IntArrayRef{0}, /*unbiased=*/false), rows.size(0));
    prepared = prepared / scale;
  }
  const LogisticLoss loss(prepared, targets, options);
  const at::Tensor start = at::zeros({loss.numbers()}, at::kDouble);
  const double steepest = loss(start).gradient.abs().max().item<double>();
  const Minimum found = minimum_of([&](const at::Tensor& at) { return loss(at); }, start,
                                   {.curvature = loss.curvature(),
                                    .tolerance = options.tolerance * steepest,
                                    .most_iterations = options.most_iterations});
  at::Tensor weight = loss.weight(found.at);
  if (options.standardize) weight = weight / scale;
  at::Tensor intercept = loss.intercept(found.at);
  if (centred) intercept = intercept - weight.matmul(mean);
  return {.weight = weight.clone(),
          .intercept = intercept.clone(),
          .iterations = found.iterations,
          .converged = found.converged};
}

}  // namespace hooked
