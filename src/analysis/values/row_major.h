#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hooked/analysis/grid.h"

namespace hooked {

// Numbers along the axes of a grid, the last one fastest.

/// The number of places of an axis.
inline std::int64_t places_on(const GridAxis& axis) { return static_cast<std::int64_t>(axis.labels.size()); }

/// The index on each of the first `n_axes` axes of the `flat`th number along them.
inline std::vector<std::int64_t> index_of(std::int64_t flat, const std::vector<GridAxis>& axes,
                                          std::size_t n_axes) {
  std::vector<std::int64_t> index(n_axes);
  for (std::size_t axis = n_axes; axis-- > 0;) {
    index[axis] = flat % places_on(axes[axis]);
    flat /= places_on(axes[axis]);
  }
  return index;
}

/// On all of the axes.
inline std::vector<std::int64_t> index_of(std::int64_t flat, const std::vector<GridAxis>& axes) {
  return index_of(flat, axes, axes.size());
}

}  // namespace hooked
