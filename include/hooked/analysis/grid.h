#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/hooks/address.h"
#include "hooked/io/overwrite.h"

namespace HOOKED_EXPORT hooked {

/// One axis of a grid: its name, a label for each place on it and, if its places are activations, which.
struct GridAxis {
  std::string name;  ///< `layer`, `head`, `pos`
  /// One per place. On an axis of tokens (`pos`, `query`, `key`) a label is the token's column, or the name
  /// of its place, and may continue with the token's text after a blank: `10  Mary`. Functions that match
  /// labels compare only what is before that text.
  std::vector<std::string> labels;
  /// The activation at each place, by its full name as in a cache's entries, one per place; nothing for a
  /// place that is not an activation (a bias). Empty: no place of this axis is an activation.
  std::vector<std::optional<Address>> places = {};

  bool operator==(const GridAxis&) const = default;
};

/// One number of a grid and where it is.
struct GridCell {
  std::vector<std::int64_t> index;  ///< one per axis
  std::vector<std::string> labels;  ///< one per axis
  /// The activation, if one of the axes has places, with the cell's indices on the other axes that the
  /// activation has, except its row: `blocks.9.attn.hook_z[head=6]` in a grid of layers and heads. Else
  /// nothing, also if one of these axes has a place with a name, which may be another column in each row.
  std::optional<Address> place;
  double value;  ///< the number
};

/// Which numbers of a grid count as large.
enum class LargestBy : std::uint8_t {
  value,  ///< 3 before 1 before -10
  size,   ///< -10 before 3 before 1: strong effects of either sign
};

/// How sure the numbers of a grid are: a range for each of them.
struct GridInterval {
  at::Tensor low;     ///< of the shape of the grid's values; NaN for a number without a range
  at::Tensor high;    ///< as `low`
  std::string about;  ///< what it is: `95 % bootstrap over row (percentile, 10000 resamples, seed 0)`
};

/// How a heat map is drawn. Unset options follow from the numbers; docs/figures.md shows pictures.
struct HeatMapOptions {
  /// `Blues`, `Greys` and `viridis` run from the low limit to the high one; `RdBu` and `PRGn` have no colour
  /// at the centre and equally strong ones at equal distances from it. Empty: RdBu if a number is below zero
  /// or `centre` is set, else Blues.
  std::string palette = {};
  std::optional<double> centre = {};  ///< of RdBu and PRGn; 0
  /// Numbers beyond the limits have a colour of their own that the legend names. Not set: the smallest and
  /// the largest finite number, extended to 0 (the centre) if that is outside.
  std::optional<double> low = {};
  std::optional<double> high = {};  ///< as `low`
  /// Bool, broadcast to the values: true for a cell that has no value and stays empty. Not set: the keys
  /// after each query of a causal pattern, that is, of a grid whose last axes are `query` and `key` and that
  /// has 0 (or -inf, as in scores) in all those cells.
  at::Tensor blank = {};
  std::int64_t panels_per_row = 0;  ///< of the axes before the last two; 0: as many as fit a page
  std::int64_t cell = 0;            ///< side of a cell in pixels, at most 400; 0: from the number of cells
};

/// Numbers with labels on their axes: what sweeps, lenses, attributions and head scores return. NaN means not
/// computed. A value: it owns its numbers and keeps no model alive.
///
/// Numbers may have ranges that say how sure they are (mean_interval). Tables, files and pictures show them;
/// a slice, a scale and new words keep them; the mean, and a difference of two grids, have none.
///
/// Prints as tables and saves as CSV, JSON, safetensors or an SVG heat map; all but the picture can be loaded
/// again.
class Grid {
 public:
  /// Words for titles and legends.
  struct Description {
    std::string title;  ///< what the numbers are about
    std::string unit;   ///< what they are: `logit difference`
  };

  /// `values` [axes[0], axes[1], ...], any floating dtype, copied as float64 on the CPU; without axes, one
  /// number. Throws ShapeError if labels or places do not fit the shape, or two axes have the same name.
  Grid(const at::Tensor& values, std::vector<GridAxis> axes, Description description);

  const at::Tensor values() const;  ///< float64
  /// In the order of the dimensions of `values()`.
  const std::vector<GridAxis>& axes() const& noexcept { return axes_; }
  /// The same of a temporary, as a copy.
  std::vector<GridAxis> axes() const&& { return axes_; }
  /// The axis of that name. Throws ShapeError naming the grid's axes.
  const GridAxis& axis(std::string_view name) const&;
  /// The same of a temporary, as a copy.
  GridAxis axis(std::string_view name) const&& { return axis(name); }
  /// What the grid shows.
  const std::string& title() const& noexcept { return description_.title; }
  /// The same of a temporary, as a copy.
  std::string title() const&& { return description_.title; }
  /// What the numbers are.
  const std::string& unit() const& noexcept { return description_.unit; }
  /// The same of a temporary, as a copy.
  std::string unit() const&& { return description_.unit; }

  /// The range of each number; nothing if the grid has none.
  const std::optional<GridInterval>& interval() const& noexcept { return interval_; }
  /// The same of a temporary, as a copy.
  std::optional<GridInterval> interval() const&& { return interval_; }
  /// The same numbers with these ranges, copied as float64. Throws ShapeError for ranges of another shape.
  Grid with_interval(const GridInterval& interval) const;

  /// The value at one index per axis; negative ones count from the end. Throws ShapeError out of range.
  double at(const std::vector<std::int64_t>& index) const;

  /// The number at one index per axis, and where it is. Throws as at().
  GridCell cell(const std::vector<std::int64_t>& index) const;

  /// The grid at one place of an axis, without that axis. A negative index counts from the end. Throws
  /// ShapeError for a missing axis or place, and for a label that several places have.
  Grid slice(std::string_view axis, std::int64_t index) const;
  /// The same, by the place's label; for a token its column is enough.
  Grid slice(std::string_view axis, std::string_view label) const;

  /// The same numbers under another title.
  Grid with_title(std::string title) const;
  /// The same numbers, which are now called this.
  Grid with_unit(std::string unit) const;
  /// The same numbers with other labels on an axis. Throws ShapeError for a missing axis and for another
  /// number of labels.
  Grid with_labels(std::string_view axis, std::vector<std::string> labels) const;

  /// The mean over an axis, without that axis. NaN is left out; the mean of only NaN is NaN. Throws
  /// ShapeError for a missing axis.
  Grid mean(std::string_view axis) const;

  /// The `count` largest numbers, largest first, ties in the order of the grid; NaN is left out.
  std::vector<GridCell> largest(std::size_t count, LargestBy by = LargestBy::value) const;

  /// The same grid on the scale on which `zero` is 0 and `one` is 1: for patching, the share of the clean
  /// run's score that was restored. `unit` says what the numbers then are. Throws ShapeError if both agree.
  Grid rescaled(double zero, double one, std::string unit) const;
  /// The same with one pair of numbers for each place of some axes: those of each row and metric, as `scores`
  /// returns them. Cells where the two are equal are NaN. Throws ShapeError for an axis that this grid does
  /// not have, or whose places lack some of this grid's labels.
  Grid rescaled(const Grid& zero, const Grid& one, std::string unit) const;

  /// One line per number after a line of column names: each axis's label, followed by `<axis> address` if the
  /// axis has places, then `value`, `unit` and `title`. Throws ShapeError for what a CSV cannot tell apart: a
  /// duplicate label on an axis, an axis without places, a name that ends in ` address`. Ranges of the
  /// numbers are the columns `low`, `high` and `interval` (what they are) after `value`.
  std::string to_csv() const;
  /// title, unit, axes with labels and places, nested values; NaN is null, infinities are "inf" and "-inf".
  /// Ranges of the numbers are `interval`, with `about`, `low` and `high`.
  std::string to_json() const;

  /// Writes `file`, all of it or nothing: `.svg` a heat map, `.csv`, `.json`, `.safetensors` (the tensor
  /// `values`, of ranges `low` and `high`; the rest is in the metadata's `grid`). Throws IoError for another
  /// extension, for an existing file that `overwrite` does not allow to replace, and if it cannot write.
  void save(const std::filesystem::path& file, Overwrite overwrite = Overwrite::ours) const;

  /// Throws what saving a grid as `file` would throw about the file: for a check before long work.
  static void require_can_save(const std::filesystem::path& file, Overwrite overwrite = Overwrite::ours);

  /// Writes the heat map `file`, a name ending in `.svg`. Throws as heat_map_svg does, and IoError.
  void save(const std::filesystem::path& file, const HeatMapOptions& options,
            Overwrite overwrite = Overwrite::ours) const;

  /// Reads a `.csv`, `.json` or `.safetensors` file that `save` wrote: the same grid, bit-exact (a NaN is a
  /// NaN). Throws IoError, and CheckpointError naming what is wrong in the file.
  static Grid load(const std::filesystem::path& file);

 private:
  friend Grid operator-(const Grid& left, const Grid& right);
  std::size_t axis_index(std::string_view name) const;
  /// The values of a grid with some of this one's axes, shaped to broadcast with values().
  at::Tensor aligned(const Grid& numbers) const;

  at::Tensor values_;
  std::vector<GridAxis> axes_;
  Description description_;
  std::optional<GridInterval> interval_;
};

/// The differences, cell by cell; NaN if either is NaN. `right` may lack some axes: then the same number is
/// subtracted along them, as a score of each row is from all cells of that row. Throws ShapeError for other
/// units, and for an axis that `left` does not have, or whose places lack some of its labels.
Grid operator-(const Grid& left, const Grid& right);

/// The same grid with a number subtracted from, added to, or multiplied with each of its own.
Grid operator-(const Grid& grid, double number);
/// The same.
Grid operator+(const Grid& grid, double number);
/// The same.
Grid operator*(const Grid& grid, double number);
/// The same.
Grid operator*(double number, const Grid& grid);

/// Aligned tables with title and labels: rows are the second-to-last axis, columns the last, or the other way
/// round if the table would otherwise be wider than a page; each place of the axes before them gets a table.
std::ostream& operator<<(std::ostream& out, const Grid& grid);

}  // namespace hooked
