#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "analysis/runs/sweep_input.h"
#include "hooked/analysis/interchange.h"

namespace hooked {

/// The runs of pairs in which a part of the sources is put into the bases.
class InterchangeRuns {
 public:
  /// Runs the sources and keeps their vectors at the positions. Throws in the name of `where`.
  InterchangeRuns(const HookedTransformer& model, const InterchangePairs& pairs, const Address& place,
                  std::string_view where);

  std::int64_t pairs() const { return base_.rows(); }
  std::int64_t width() const { return source_.size(2); }
  const Address& place() const& noexcept { return place_; }

  /// A metric's score of each of these pairs' bases, [row], with the sources' part in the span of `basis` [d,
  /// k] put in; `differentiable` in the basis.
  at::Tensor scores(const BoundMetric& metric, const at::Tensor& basis, const std::vector<std::int64_t>& rows,
                    bool differentiable) const;
  /// The scores of these pairs, a few at a time.
  at::Tensor all_scores(const BoundMetric& metric, const at::Tensor& basis,
                        const std::vector<std::int64_t>& rows) const;

  /// The log-probability of the expected answers, and whether they are the likeliest.
  const BoundMetric& objective() const& noexcept { return objective_; }
  const BoundMetric& correct() const& noexcept { return correct_; }
  /// What is said of these pairs.
  InterchangeReport report(const at::Tensor& basis, const std::vector<std::int64_t>& rows) const;

 private:
  at::Tensor with_part(const at::Tensor& value, const at::Tensor& basis, const at::Tensor& columns,
                       const at::Tensor& source) const;

  HookedTransformer model_;
  Address place_;
  std::string_view where_;
  SweepInput base_;
  at::Tensor columns_;  // [row, position], in the base
  at::Tensor source_;   // [row, position, d]
  BoundMetric objective_, correct_;
};

/// Columns [row, position] of positions in an input, of the stack that a place is in.
at::Tensor columns_in(const SweepInput& input, const Address& place, const std::vector<Position>& positions);

/// Throws HookError unless the place is an activation [row, pos, d] or a head of one.
void require_vectors_at(const HookedTransformer& model, const Address& place, std::string_view where);

/// Throws ShapeError unless `basis` is [d, k] with orthonormal columns.
void require_orthonormal(const at::Tensor& basis, std::int64_t d, std::string_view where);

}  // namespace hooked
