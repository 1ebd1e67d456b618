#include "families/shared/fairseq_layout.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <vector>

namespace hooked {

at::Tensor fairseq_sinusoids(const ModelConfig& c, std::int64_t first, std::int64_t padding_row) {
  const at::ScalarType precision = c.dtype == at::kDouble ? at::kDouble : at::kFloat;
  const std::int64_t half = c.d_model / 2;
  const double step = -std::log(10000.0) / static_cast<double>(half - 1);
  const at::Tensor frequencies = at::exp(at::arange(half, precision) * step);
  const at::Tensor places = at::arange(first, c.n_ctx + first, precision);
  const at::Tensor angles = places.unsqueeze(1) * frequencies;
  std::vector<at::Tensor> columns{at::sin(angles), at::cos(angles)};
  if (c.d_model % 2 == 1) columns.push_back(at::zeros({c.n_ctx, 1}, precision));
  const at::Tensor table = at::cat(columns, 1);
  const std::int64_t row = padding_row - first;
  if (row >= 0 && row < c.n_ctx) table.select(0, row).zero_();
  return table;
}

}  // namespace hooked
