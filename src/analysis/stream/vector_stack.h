#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "analysis/places/row_columns.h"
#include "hooked/analysis/grid.h"

namespace hooked {

/// Vectors of the stream in a grid with axes `row` and `pos`, the last axis `d_model`, and any others.
class VectorStack {
 public:
  /// Throws ShapeError, naming `where`, for other axes and if rows, positions or width differ from these.
  VectorStack(const Grid& grid, const RowColumns& columns, std::int64_t d_model, const std::string& where);

  /// [other, row, pos, d_model] float64.
  const at::Tensor& vectors() const { return vectors_; }
  /// Other vectors of that shape in the grid's order.
  Grid with_vectors(const at::Tensor& vectors, Grid::Description description) const;
  /// Replaces each vector by one number, [other, row, pos]; the result has the grid's axes except d_model.
  Grid with_numbers(const at::Tensor& numbers, Grid::Description description) const;

 private:
  at::Tensor in_grids_order(const at::Tensor& values) const;

  std::vector<GridAxis> axes_;
  std::vector<std::int64_t> order_;   // the grid's axes as ordered in `vectors`, before flattening
  std::vector<std::int64_t> others_;  // sizes of the other axes
  at::Tensor vectors_;
};

}  // namespace hooked
