#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "hooked/analysis/grid.h"

namespace hooked {

// Numbers along the axes of a grid, the last one fastest.

/// The number of places of an axis.
inline std::int64_t places_on(const GridAxis& axis) { return static_cast<std::int64_t>(axis.labels.size()); }

/// The index on each axis of the `flat`th number along them.
inline std::vector<std::int64_t> index_of(std::int64_t flat, std::span<const GridAxis> axes) {
  std::vector<std::int64_t> index(axes.size());
  for (std::size_t axis = axes.size(); axis-- > 0;) {
    index[axis] = flat % places_on(axes[axis]);
    flat /= places_on(axes[axis]);
  }
  return index;
}

/// The number of panels that show a grid: one for each place of the axes before the last two.
inline std::int64_t panel_count(const Grid& grid) {
  std::int64_t panels = 1;
  for (std::size_t i = 0; i + 2 < grid.axes().size(); ++i) panels *= places_on(grid.axes()[i]);
  return panels;
}

/// The place of a panel: each of these axes with the index of the panel's place on it. Panels count in the
/// order of the values.
inline std::vector<std::pair<const GridAxis*, std::size_t>> panel_place(const Grid& grid,
                                                                        std::int64_t panel) {
  const std::span<const GridAxis> axes = grid.axes();
  std::vector<std::pair<const GridAxis*, std::size_t>> place;
  for (const std::int64_t index : index_of(panel, axes.first(axes.size() < 2 ? 0 : axes.size() - 2)))
    place.emplace_back(&axes[place.size()], static_cast<std::size_t>(index));
  return place;
}

}  // namespace hooked
