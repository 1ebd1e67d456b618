#include "analysis/grid_panels.h"

namespace hooked {
namespace {

std::size_t leading_axes(const Grid& grid) { return grid.axes().size() > 2 ? grid.axes().size() - 2 : 0; }

}  // namespace

std::int64_t panel_count(const Grid& grid) {
  std::int64_t panels = 1;
  for (std::size_t i = 0; i < leading_axes(grid); ++i)
    panels *= static_cast<std::int64_t>(grid.axes()[i].labels.size());
  return panels;
}

std::vector<std::pair<const GridAxis*, std::size_t>> panel_place(const Grid& grid, std::int64_t panel) {
  std::vector<std::pair<const GridAxis*, std::size_t>> place(leading_axes(grid));
  auto rest = static_cast<std::size_t>(panel);
  for (std::size_t i = place.size(); i-- > 0;) {
    const auto& axis = grid.axes()[i];
    place[i] = {&axis, rest % axis.labels.size()};
    rest /= axis.labels.size();
  }
  return place;
}

}  // namespace hooked
