#include "analysis/stream/vector_stack.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analysis/values/place_labels.h"
#include "analysis/values/row_major.h"
#include "hooked/core/error.h"

namespace hooked {

VectorStack::VectorStack(const Grid& grid, const RowColumns& columns, std::int64_t d_model,
                         const std::string& where)
    : axes_(grid.axes()) {
  const auto axis_of = [&](const char* name) {
    const auto found = std::ranges::find(axes_, name, &GridAxis::name);
    return found == axes_.end() ? std::int64_t{-1} : found - axes_.begin();
  };
  const auto row = axis_of("row"), pos = axis_of("pos"), model = axis_of("d_model");
  const auto last = static_cast<std::int64_t>(axes_.size()) - 1;
  if (row < 0 || pos < 0 || model < 0 || model != last) {
    std::vector<std::string> names;
    for (const auto& axis : axes_) names.push_back(axis.name);
    throw ShapeError(where,
                     fmt::format("these are not vectors of the stream; expected a grid with axes `row` and "
                                 "`pos` and the last axis `d_model`, got [{}]",
                                 fmt::join(names, ", ")));
  }
  const auto require = [&](const char* name, std::int64_t got, std::int64_t expected) {
    if (got == expected) return;
    throw ShapeError(where, fmt::format("the axis `{}` of the stack has {} places; expected the run's {}",
                                        name, got, expected));
  };
  require("row", places_on(grid.axis("row")), columns.rows());
  require("d_model", places_on(grid.axis("d_model")), d_model);
  if (place_labels(grid.axis("pos")) != place_labels(columns.axis)) {
    throw ShapeError(
        where, fmt::format("the stack's positions are [{}]; expected those of `positions`, [{}]",
                           fmt::join(grid.axis("pos").labels, ", "), fmt::join(columns.axis.labels, ", ")));
  }
  for (std::int64_t axis = 0; axis <= last; ++axis) {
    if (axis == row || axis == pos || axis == model) continue;
    order_.push_back(axis);
    others_.push_back(grid.values().size(axis));
  }
  order_.insert(order_.end(), {row, pos, model});
  const auto in_order = grid.values().permute(order_);
  vectors_ = in_order.reshape({-1, columns.rows(), columns.positions(), d_model});
}

at::Tensor VectorStack::in_grids_order(const at::Tensor& values) const {
  auto sizes = others_;
  for (std::int64_t axis = 1; axis < values.dim(); ++axis) sizes.push_back(values.size(axis));
  std::vector<std::int64_t> back(static_cast<std::size_t>(values.dim()) - 1 + others_.size());
  for (std::size_t i = 0; i < back.size(); ++i)
    back[static_cast<std::size_t>(order_[i])] = static_cast<std::int64_t>(i);
  return values.reshape(sizes).permute(back);
}

Grid VectorStack::with_vectors(const at::Tensor& vectors, Grid::Description description) const {
  return Grid(in_grids_order(vectors), axes_, std::move(description));
}

Grid VectorStack::with_numbers(const at::Tensor& numbers, Grid::Description description) const {
  return Grid(in_grids_order(numbers), {axes_.begin(), axes_.end() - 1}, std::move(description));
}

}  // namespace hooked
