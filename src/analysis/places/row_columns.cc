#include "analysis/places/row_columns.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <limits>

namespace hooked {

RowColumns RowColumns::of(const std::vector<Position>& positions, std::int64_t rows,
                          const TokenColumns& tokens) {
  if (positions.empty()) {
    RowColumns all{.columns = at::arange(tokens.first, tokens.end, at::kLong).expand({rows, -1}),
                   .real = tokens.mask.defined() ? tokens.mask.to(at::kCPU) : at::Tensor(),
                   .axis = {.name = "pos", .labels = {}}};
    for (auto column = tokens.first; column < tokens.end; ++column)
      all.axis.labels.push_back(std::to_string(column));
    return all;
  }
  RowColumns some{.columns = at::empty({rows, static_cast<std::int64_t>(positions.size())}, at::kLong),
                  .real = {},
                  .axis = {.name = "pos", .labels = {}}};
  for (std::size_t i = 0; i < positions.size(); ++i) {
    some.columns.select(1, static_cast<std::int64_t>(i))
        .copy_(at::tensor(positions[i].columns(rows, tokens), at::kLong));
    some.axis.labels.push_back(positions[i].label());
  }
  return some;
}

at::Tensor without_padding(const at::Tensor& values, const RowColumns& columns) {
  if (!columns.real.defined()) return values;
  auto real = columns.real;
  while (real.dim() < values.dim()) real = real.unsqueeze(1);
  return values.masked_fill(real.logical_not(), std::numeric_limits<double>::quiet_NaN());
}

GridAxis numbered_axis(std::string_view name, std::int64_t places) {
  GridAxis axis{.name = std::string(name), .labels = {}};
  for (std::int64_t place = 0; place < places; ++place) axis.labels.push_back(std::to_string(place));
  return axis;
}

}  // namespace hooked
