#include "analysis/graphs/graph_ranking.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

namespace hooked {
namespace {

constexpr double kLeastSum = 1e-8;
/// Paths are not longer than the layers; this ends the work on numbers that are not finite.
constexpr int kMostSteps = 1024;

}  // namespace

GraphRanking::GraphRanking(std::int64_t features, std::int64_t rows, std::int64_t kept,
                           std::vector<double> weights)
    : features_(features), kept_(std::min(kept, features)), weights_(std::move(weights)) {
  shares_ = at::empty({rows, kept_}, at::kFloat);
  if (kept_ < features) indices_ = at::empty({rows, kept_}, at::kInt);
}

void GraphRanking::add(const at::Tensor& edges, std::int64_t feature) {
  const at::Tensor sizes = edges.abs();
  at::Tensor shares = sizes.slice(0, 0, features_) / sizes.sum().clamp_min(kLeastSum);
  if (indices_.defined()) {
    const auto [largest, where] = at::topk(shares, kept_);
    indices_[rows_].copy_(where);
    shares = largest;
  }
  shares_[rows_].copy_(shares);
  feature_of_row_.push_back(feature);
  ++rows_;
}

at::Tensor GraphRanking::influences() const {
  at::Tensor all = at::zeros({features_}, at::kFloat), reached = at::zeros({features_}, at::kFloat);
  for (int step = 0; step < kMostSteps; ++step) {
    at::Tensor next = at::zeros({features_}, at::kFloat);
    const auto* weights = reached.const_data_ptr<float>();
    for (std::int64_t row = 0; row < rows_; ++row) {
      const std::int64_t feature = feature_of_row_[static_cast<std::size_t>(row)];
      const double weight = feature >= 0 ? static_cast<double>(weights[feature])
                            : step == 0  ? weights_[static_cast<std::size_t>(row)]
                                         : 0.0;
      if (weight == 0.0) continue;
      if (indices_.defined()) {
        next.index_add_(0, indices_[row], shares_[row], weight);
      } else {
        next.add_(shares_[row], weight);
      }
    }
    if (!next.any().item<bool>()) break;
    all += next;
    reached = next;
  }
  return all;
}

}  // namespace hooked
