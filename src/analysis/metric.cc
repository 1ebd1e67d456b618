#include "hooked/analysis/metric.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/log_softmax.h>
#include <fmt/format.h>

#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

void require_token(std::int64_t token, const char* metric) {
  if (token >= 0) return;
  throw ShapeError(metric, fmt::format("token id {} is negative; expected an id of the vocabulary", token));
}

at::Tensor logits_of(const at::Tensor& logits, std::int64_t token, const char* metric) {
  if (token >= logits.size(2)) {
    throw ShapeError(metric, fmt::format("token id {} is outside the logits; expected an id below {}", token,
                                         logits.size(2)));
  }
  return logits.select(2, token).select(1, 0);  // [row]
}

}  // namespace

Metric::Metric(Function function, Declared declared)
    : function_(std::move(function)), declared_(std::move(declared)) {
  if (declared_.positions.empty()) {
    throw ShapeError(declared_.name,
                     "a metric without positions has no logits to look at; expected at least one");
  }
}

at::Tensor Metric::operator()(const at::Tensor& logits) const {
  const auto n_positions = static_cast<std::int64_t>(positions().size());
  if (logits.dim() != 3 || logits.size(1) != n_positions) {
    throw ShapeError(
        name(), fmt::format("the metric looks at {} positions; expected logits [row, {}, vocab], got {}; "
                            "run with logit_positions = metric.positions()",
                            n_positions, n_positions, shape_text(logits.sizes())));
  }
  auto scores = function_(logits);
  if (!scores.defined() || scores.dim() != 1 || scores.size(0) != logits.size(0)) {
    throw ShapeError(
        name(), fmt::format("a metric gives one number per row; expected shape [{}] from logits {}, got {}",
                            logits.size(0), shape_text(logits.sizes()),
                            scores.defined() ? shape_text(scores.sizes()) : "an undefined tensor"));
  }
  return scores;
}

Metric::operator LogitMetric() const {
  return {[metric = *this](const at::Tensor& logits) { return metric(logits).sum(); }, positions()};
}

Metric logit_difference(std::int64_t answer, std::int64_t against, std::int64_t position) {
  static constexpr const char* kName = "logit difference";
  require_token(answer, kName);
  require_token(against, kName);
  return Metric(
      [answer, against](const at::Tensor& logits) {
        return logits_of(logits, answer, kName) - logits_of(logits, against, kName);
      },
      {position}, kName);
}

Metric log_probability(std::int64_t answer, std::int64_t position) {
  static constexpr const char* kName = "log-probability";
  require_token(answer, kName);
  return Metric(
      [answer](const at::Tensor& logits) {
        // Checked before the softmax, so that a wrong id is named; float32 at least, whatever the logits are.
        logits_of(logits, answer, kName);
        const auto wide = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
        return logits_of(at::log_softmax(logits, -1, wide), answer, kName);
      },
      {position}, kName);
}

}  // namespace hooked
