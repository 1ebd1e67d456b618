#include "analysis/values/grid_panels.h"

#include "analysis/values/row_major.h"

namespace hooked {
namespace {

std::size_t leading_axes(const Grid& grid) { return grid.axes().size() > 2 ? grid.axes().size() - 2 : 0; }

}  // namespace

std::int64_t panel_count(const Grid& grid) {
  std::int64_t panels = 1;
  for (std::size_t i = 0; i < leading_axes(grid); ++i) panels *= places_on(grid.axes()[i]);
  return panels;
}

std::vector<std::pair<const GridAxis*, std::size_t>> panel_place(const Grid& grid, std::int64_t panel) {
  std::vector<std::pair<const GridAxis*, std::size_t>> place;
  for (const std::int64_t index : index_of(panel, grid.axes(), leading_axes(grid)))
    place.emplace_back(&grid.axes()[place.size()], static_cast<std::size_t>(index));
  return place;
}

}  // namespace hooked
