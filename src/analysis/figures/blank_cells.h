#pragma once

#include <ATen/core/Tensor.h>

#include "hooked/analysis/grid.h"

namespace hooked {

/// Bool, the shape of the grid's values: which cells of a heat map stay empty. `asked` is
/// HeatMapOptions::blank. Throws ShapeError if that does not fit.
at::Tensor blank_cells(const Grid& grid, const at::Tensor& asked);

}  // namespace hooked
