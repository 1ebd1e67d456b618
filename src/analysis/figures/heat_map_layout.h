#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/figures/axis.h"
#include "hooked/analysis/grid.h"

namespace hooked {

/// Where the parts of a heat map are, in pixels.
struct HeatMapLayout {
  HeatMapLayout(const Grid& grid, const HeatMapOptions& options);

  std::int64_t panels, rows, columns;  ///< cells: panels * rows * columns
  std::int64_t per_row;                ///< panels next to each other
  std::int64_t cell;
  /// Side of the squares of cells that are one element of the picture: 1 for few cells. With more, the cells
  /// are the pixels of an image and the squares only show their range.
  std::int64_t block;

  LabelRow row_labels, column_labels;
  std::vector<std::string> panel_titles;  ///< one per panel; empty with fewer than three axes

  double left = 0, top = 0;                  ///< of the first panel's first cell
  double panel_width = 0, panel_height = 0;  ///< of the cells
  double panel_extent = 0;                   ///< of a panel and its title to the right
  double across = 0, down = 0;               ///< from panel to panel
  double label_height = 0;                   ///< below the cells

  bool is_image() const { return block > 1; }
  std::int64_t panel_rows() const { return (panels + per_row - 1) / per_row; }
  double panel_left(std::int64_t panel) const { return left + across * static_cast<double>(panel % per_row); }
  double panel_top(std::int64_t panel) const { return top + down * static_cast<double>(panel / per_row); }
  double right() const { return left + across * static_cast<double>(per_row - 1) + panel_extent; }
  double bottom() const { return top + down * static_cast<double>(panel_rows() - 1) + panel_height; }
  /// Whether there is another panel below, which then has the labels of the columns.
  bool has_panel_below(std::int64_t panel) const { return panel + per_row < panels; }
};

/// Bool, the shape of the grid's values: which cells of a heat map stay empty. `asked` is
/// HeatMapOptions::blank. Throws ShapeError if that does not fit.
at::Tensor blank_cells(const Grid& grid, const at::Tensor& asked);

/// How the numbers of a heat map are written in its cells: as multiples of one power of ten, with the same
/// number of decimals and in the same size.
struct NumberFormat {
  int exponent = 0;  ///< cells show the number divided by ten to this power
  int decimals = 2;
  double font = 11;  ///< pixels
  /// A number that would be written as zero has one digit and a power of ten: `3e-7`. For probabilities.
  bool keeps_small = false;

  /// The format in which all `numbers` (finite) fit cells of `cell` pixels, with at least one decimal less
  /// than the largest of them deserves; nothing if there is none.
  static std::optional<NumberFormat> that_fits(std::span<const double> numbers, std::int64_t cell);

  std::string operator()(double number) const;

  /// The number as written if it fits a cell, with fewer digits if necessary; empty if it does not fit. NaN
  /// and infinities have their own words.
  std::string if_it_fits(double number, std::int64_t cell) const;
};

}  // namespace hooked
