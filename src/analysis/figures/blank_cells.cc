#include "analysis/figures/blank_cells.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <limits>

#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

/// Whether all keys after a query have 0, or -inf, as in a causal model, and not all others do.
at::Tensor causal_blank(const Grid& grid) {
  const auto& values = grid.values();
  const auto none = at::zeros(values.sizes(), at::kBool);
  const auto& axes = grid.axes();
  if (axes.size() < 2 || axes.back().name != "key" || axes[axes.size() - 2].name != "query") return none;
  const auto later = at::ones(values.sizes(), at::kBool).triu(values.size(-1) - values.size(-2) + 1);
  const auto empty = values.eq(0).logical_or(values.eq(-std::numeric_limits<double>::infinity()));
  const bool causal = later.any().item<bool>() && empty.logical_or(later.logical_not()).all().item<bool>() &&
                      !empty.all().item<bool>();
  return causal ? later : none;
}

}  // namespace

at::Tensor blank_cells(const Grid& grid, const at::Tensor& asked) {
  if (!asked.defined()) return causal_blank(grid);
  const auto shape = grid.values().sizes();
  bool fits = asked.scalar_type() == at::kBool && asked.dim() <= grid.values().dim();
  for (std::int64_t i = 1; fits && i <= asked.dim(); ++i)
    fits = asked.size(-i) == 1 || asked.size(-i) == grid.values().size(-i);
  if (!fits) {
    throw ShapeError(
        "heat map",
        fmt::format("blank does not fit the grid; expected bool {}, or what broadcasts to it, "
                    "got {} {}; true says that a cell stays empty",
                    shape_text(shape), dtype_text(asked.scalar_type()), shape_text(asked.sizes())));
  }
  return asked.to(at::kCPU).expand(shape).contiguous();
}

}  // namespace hooked
