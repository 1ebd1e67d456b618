// Gradients of a score with respect to activations: along a direction, by differences of runs.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tests/combinations/points.h"
#include "tests/combinations/slopes.h"
#include "tests/combinations/sweep_parts.h"

namespace hooked::combinations {
namespace {

/// A direction in the block that a Where names, NaN elsewhere.
Array direction_in(const Where& where, const ActivationName& name, const Row& row, const Array& value) {
  Array along(value.shape);
  const Block block(where, name.site, row, value.shape);
  std::int64_t number = 0;
  for_each(along, [&](const std::vector<std::int64_t>& index, double& element) {
    element = block.holds(index) ? std::cos(static_cast<double>(3 * number)) : NAN;
    ++number;
  });
  return along;
}

/// The sum of a gradient [row, ...] times a direction in one row.
double along_gradient(const at::Tensor& gradient, const ActivationName& name, const Row& row,
                      const Array& along) {
  const auto of_pos = dimension_of(name.site, Index::pos), of_keys = dimension_of(name.site, Index::key);
  Array direction = along;
  double sum = 0.0;
  for_each(direction, [&](const std::vector<std::int64_t>& index, double& element) {
    if (std::isnan(element)) return;
    at::Tensor there = gradient[row.index];
    for (std::size_t dim = 1; dim < index.size(); ++dim) {
      const bool columns = dim == of_pos || dim == of_keys;
      there = there[columns ? row.columns.at(static_cast<std::size_t>(index[dim])) : index[dim]];
    }
    sum += element * there.item<double>();
  });
  return sum;
}

}  // namespace

void compare_gradients(const Subject& subject, Comparison& comparison) {
  const Combination& c = subject.combination();
  const Subject::Attached handle = subject.attached(c.changes);
  const Input input = subject.whole(subject.rows());
  const BoundMetric metric = metric_of(subject).on(handle.model, input);
  Where where = c.reads.front();
  where.layer = layers_of(where, subject.config()).front();
  const ActivationName name = name_in(where, *where.layer);
  RunOptions options =
      metric.needs({.hooks = subject.hooks(c.changes, Said::hook), .edits = subject.edits(c.changes)});
  options.gradients =
      GradientRequest{.of = Selection(name), .of_run = metric, .skip_unread = c.less.kept_on_device};
  const RunResult result = handle.model.run(input, options);
  for (const Row& row : subject.rows()) {
    const auto& run = subject.runs()[static_cast<std::size_t>(row.index)];
    const Array along = direction_in(where, name, row, run.activations.at(name.to_string()));
    const auto expected = score_slope(subject, row, [&](double x) {
      std::vector<reference::Change> changes = subject.changes_of(row);
      changes.push_back(adding(name.to_string(), along, x));
      return changes;
    });
    if (!expected) continue;
    comparison.expect_number(fmt::format("gradient at {} in row {}", name.to_string(), row.index),
                             along_gradient(result.gradients[Address(name)], name, row, along), *expected,
                             kSlopeTolerance);
  }
}

}  // namespace hooked::combinations
