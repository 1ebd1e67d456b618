#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "hooked/analysis/grid.h"
#include "hooked/analysis/position.h"

namespace hooked {

/// Positions as columns of the rows of one run.
struct RowColumns {
  at::Tensor columns;  ///< [row, position] int64 on the CPU, absolute
  at::Tensor real;     ///< [row, position] bool on the CPU; undefined: all are
  GridAxis axis;       ///< `pos`, with a label per position

  std::int64_t rows() const { return columns.size(0); }
  std::int64_t positions() const { return columns.size(1); }

  /// One column per given position; if none are given, all columns, possibly with padding among them. Throws
  /// what Position::columns throws.
  static RowColumns of(const std::vector<Position>& positions, std::int64_t rows, const TokenColumns& tokens);
};

/// `values` [row, ..., position] with NaN if the token is padding.
at::Tensor without_padding(const at::Tensor& values, const RowColumns& columns);

/// An axis whose places are 0, 1, ...
GridAxis numbered_axis(std::string_view name, std::int64_t places);

}  // namespace hooked
