#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/engine/run_options.h"

namespace HOOKED_EXPORT hooked {

/// A score of a run, row by row: a function from logits to one number per row, and the positions it looks at.
///
/// It declares its positions so that whoever runs the model for it computes the logits of those only. Row `i`
/// of the result must depend on row `i` of the logits alone; a sweep checks that. A value: copies are cheap.
class Metric {
 public:
  /// Maps logits [row, position, vocab], where the second axis is the declared positions in order, to [row].
  using Function = std::function<at::Tensor(const at::Tensor& logits)>;

  /// Any callable. `positions` may be negative (from the end); the default is the last one. Throws ShapeError
  /// when there are none.
  template <std::invocable<const at::Tensor&> F>
  requires(!std::same_as<std::remove_cvref_t<F>, Metric>)
      Metric(F function, std::vector<std::int64_t> positions = {-1},  // NOLINT: a callable is a metric
             std::string name = "metric")
      : Metric(Function(std::move(function)), Declared{std::move(positions), std::move(name)}) {}

  /// Where it reads the logits; negative positions count from the end.
  const std::vector<std::int64_t>& positions() const noexcept { return declared_.positions; }
  /// What the score is, for titles: `logit difference`.
  const std::string& name() const noexcept { return declared_.name; }

  /// The score of each row, [row], from logits at the declared positions, [row, position, vocab].
  /// Throws ShapeError when the logits have another number of positions, or the function gives anything but
  /// [row].
  at::Tensor operator()(const at::Tensor& logits) const;

  /// For gradients: the sum over rows, from the logits at the declared positions. As the rows do not meet,
  /// each row's gradient is that of its own score.
  operator LogitMetric() const;  // NOLINT: wherever the engine wants one, a Metric will do

 private:
  struct Declared {
    std::vector<std::int64_t> positions;
    std::string name;
  };
  Metric(Function function, Declared declared);

  Function function_;
  Declared declared_;
};

/// logit(answer) - logit(against) at one position, in logits. Throws ShapeError for a negative id; an id
/// beyond the vocabulary throws when the metric meets logits.
Metric logit_difference(std::int64_t answer, std::int64_t against, std::int64_t position = -1);

/// log p(answer) at one position, in nats. Throws as logit_difference.
Metric log_probability(std::int64_t answer, std::int64_t position = -1);

}  // namespace hooked
