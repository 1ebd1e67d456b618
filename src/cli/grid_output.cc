#include "cli/grid_output.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <string>
#include <utility>

namespace hooked::cli {

Json grid_json(const Grid& grid) {
  const std::string text = grid.to_json();
  return parse_json(text, {.bytes = text.size()});
}

Grid without_missing(const Grid& grid, std::string_view axis) {
  auto axes = grid.axes();
  const auto own = std::find_if(axes.begin(), axes.end(), [&](const GridAxis& a) { return a.name == axis; });
  const auto dimension = own - axes.begin();
  const auto places = grid.values().size(dimension);
  // [place, all others]
  const auto missing = grid.values().movedim(dimension, 0).reshape({places, -1}).isnan().all(1);
  std::int64_t end = places;
  while (end > 0 && missing[end - 1].item<bool>()) --end;
  own->labels.resize(static_cast<std::size_t>(end));
  if (!own->places.empty()) own->places.resize(static_cast<std::size_t>(end));
  return Grid(grid.values().narrow(dimension, 0, end), std::move(axes),
              {.title = grid.title(), .unit = grid.unit()});
}

}  // namespace hooked::cli
