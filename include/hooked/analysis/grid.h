#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// One axis of a grid: what it is, and a label for each place on it.
struct GridAxis {
  std::string name;                 ///< `layer`, `head`, `pos`
  std::vector<std::string> labels;  ///< one per place
};

/// One number of a grid and where it stands.
struct GridCell {
  std::vector<std::int64_t> index;  ///< one per axis
  double value;                     ///< the number
};

/// How a heat map is drawn. What is not set follows from the numbers; docs/figures.md shows pictures.
struct HeatMapOptions {
  /// `Blues`, `Greys` and `viridis` run from the low limit to the high one; `RdBu` and `PRGn` have no colour
  /// at the centre and equally strong ones at equal distances from it. Empty: RdBu where a number is below
  /// zero or `centre` is set, else Blues.
  std::string palette = {};
  std::optional<double> centre = {};  ///< of RdBu and PRGn; 0
  /// Numbers beyond the limits have a colour of their own that the legend names. Not set: the smallest and
  /// the largest finite number, and 0 (the centre) where that lies outside.
  std::optional<double> low = {};
  std::optional<double> high = {};  ///< as `low`
  /// Bool, broadcast to the values: true where a cell carries no value and stays empty. Not set: the keys
  /// after each query of a causal pattern, that is, of a grid with `query` and `key` as its last axes and 0
  /// (or -inf, as in scores) in all those cells.
  at::Tensor blank = {};
  std::int64_t panels_per_row = 0;  ///< of the third axis; 0: as fits a page
  std::int64_t cell = 0;            ///< side of a cell in pixels, at most 400; 0: by the number of cells
};

/// Numbers with labels on their axes: what sweeps and detectors return. Prints as a table, saves as CSV, JSON
/// or an SVG heat map.
class Grid {
 public:
  /// Words for titles and legends.
  struct Description {
    std::string title;  ///< what the picture shows
    std::string unit;   ///< what the numbers are: `logit difference`
  };

  /// `values` [axes[0], axes[1], ...], any floating dtype; kept as float64 on the CPU. One to three axes.
  /// Throws ShapeError when the labels do not fit the shape.
  Grid(at::Tensor values, std::vector<GridAxis> axes, Description description);

  const at::Tensor& values() const noexcept { return values_; }  ///< float64
  /// One to three axes, in the order of the dimensions of `values()`.
  const std::vector<GridAxis>& axes() const noexcept { return axes_; }
  /// What the grid shows.
  const std::string& title() const noexcept { return description_.title; }
  /// What the numbers are.
  const std::string& unit() const noexcept { return description_.unit; }

  /// The value at one index per axis. Throws ShapeError out of range.
  double at(const std::vector<std::int64_t>& index) const;

  /// The `count` largest numbers, largest first; NaN is left out.
  std::vector<GridCell> largest(std::size_t count) const;

  /// The same grid on the scale on which `zero` is 0 and `one` is 1: for patching, how much of the clean
  /// run's score came back. `unit` says what the numbers are then. Throws ShapeError when the two are equal.
  Grid rescaled(double zero, double one, std::string unit) const;

  std::string to_csv() const;   ///< one line per number: the labels, then the value
  std::string to_json() const;  ///< title, unit, axes with labels, nested values

  /// Writes `file`: `.svg` a heat map, `.csv`, `.json`. Throws IoError for another ending and when it cannot
  /// write.
  void save(const std::filesystem::path& file) const;

  /// Writes the heat map `file`, a name ending in `.svg`. Throws as heat_map_svg does, and IoError.
  void save(const std::filesystem::path& file, const HeatMapOptions& options) const;

 private:
  at::Tensor values_;
  std::vector<GridAxis> axes_;
  Description description_;
};

/// An aligned table with title and labels: rows are the last axis but one, columns the last; a third axis
/// gives one table per place.
std::ostream& operator<<(std::ostream& out, const Grid& grid);

}  // namespace hooked
