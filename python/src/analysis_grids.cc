// Grids, and pictures of them.
#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {

namespace {

using Places = std::variant<std::int64_t, std::string>;
using GridClass = nb::class_<Grid>;

Grid slice_at(const Grid& grid, const std::string& axis, const Places& place) {
  return std::visit([&](const auto& at) { return grid.slice(axis, at); }, place);
}

// `grid[1, "mlp 0"]`: places on the first axes, by index or label.
nb::object item(const Grid& grid, nb::handle places) {
  const nb::tuple all =
      nb::isinstance<nb::tuple>(places) ? nb::borrow<nb::tuple>(places) : nb::make_tuple(places);
  if (nb::len(all) > grid.axes().size()) {
    throw ShapeError(grid.title(), "more places than axes; expected at most " +
                                       std::to_string(grid.axes().size()) + ", got " +
                                       std::to_string(nb::len(all)));
  }
  Grid left = grid;
  for (nb::handle place : all) left = slice_at(left, left.axes().front().name, nb::cast<Places>(place));
  return left.axes().empty() ? nb::cast(left.at({})) : nb::cast(std::move(left));
}

// What other Python packages have of a grid, which hooked._grid makes.
void bind_conversions(GridClass& grid) {
  const auto convert = [&](const char* name, const char* function, const char* signature, const char* doc) {
    grid.def(
        name,
        [function](nb::handle self, nb::args arguments, nb::kwargs options) {
          return nb::module_::import_("hooked._grid").attr(function)(self, *arguments, **options);
        },
        nb::sig(signature), doc);
  };
  convert("numpy", "numpy", "def numpy(self) -> numpy.ndarray",
          "The numbers as a NumPy array of float64. It shares the grid's memory.");
  convert("__array__", "array",
          "def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> numpy.ndarray",
          "The numbers for NumPy.");
  convert(
      "to_pandas", "to_pandas", "def to_pandas(self, wide: bool = False) -> pandas.DataFrame",
      "A pandas DataFrame. Long, unless `wide`: one row per number, with a column for each axis's\n"
      "labels, one `<axis> address` for an axis that has places, and `value`, with `low` and `high` if the\n"
      "numbers have ranges. Wide: a row for each place of all axes but the last, and a column for each\n"
      "place of the last axis; of a grid with one axis, the one column `value`. `attrs` has title, unit\n"
      "and, long, `interval`: what the ranges are.");
  convert("to_xarray", "to_xarray", "def to_xarray(self) -> xarray.DataArray",
          "An xarray DataArray: dimensions are the axes, coordinates their labels, and for an axis that has\n"
          "places its addresses as `<axis>_address`. The name is the title; `attrs` has title and unit.");
  convert("_repr_html_", "repr_html", "def _repr_html_(self) -> str",
          "The picture and the tables, for notebooks. It needs no other file.");
}

void bind_arithmetic(GridClass& grid) {
  grid.def("__sub__", [](const Grid& left, const Grid& right) { return left - right; })
      .def("__sub__", [](const Grid& left, double right) { return left - right; })
      .def("__add__", [](const Grid& left, double right) { return left + right; })
      .def("__radd__", [](const Grid& right, double left) { return right + left; })
      .def("__mul__", [](const Grid& left, double right) { return left * right; })
      .def("__rmul__", [](const Grid& right, double left) { return left * right; });
}

void bind_grid_files(GridClass& grid) {
  grid.def("to_csv", &Grid::to_csv, documentation("Grid::to_csv"))
      .def("to_json", &Grid::to_json, documentation("Grid::to_json"))
      .def(
          "save",
          [](const Grid& self, const std::filesystem::path& file, Like<Overwrite> overwrite) {
            self.save(file, overwrite.take());
          },
          nb::arg("file"), nb::kw_only(), nb::arg("overwrite") = "ours", ReleaseGil(),
          documentation("Grid::save"))
      .def_static("load", &Grid::load, nb::arg("file"), ReleaseGil(), documentation("Grid::load"))
      .def_static(
          "require_can_save",
          [](const std::filesystem::path& file, Like<Overwrite> overwrite) {
            Grid::require_can_save(file, overwrite.take());
          },
          nb::arg("file"), nb::arg("overwrite") = "ours", documentation("Grid::require_can_save"));
  define(
      grid, "save", "Grid::save",
      [](const Grid& self, const std::filesystem::path& file, Like<Overwrite> overwrite,
         HeatMapOptions options) { self.save(file, options, overwrite.take()); },
      nb::arg("file"), nb::kw_only(), nb::arg("overwrite") = "ours");
}

void bind_numbers(GridClass& grid) {
  grid.def(
          "__init__",
          [](Grid* self, at::Tensor values, Like<std::vector<GridAxis>> axes, std::string title,
             std::string unit) {
            new (self) Grid(values, axes.take(), {.title = std::move(title), .unit = std::move(unit)});
          },
          nb::arg("values"), nb::arg("axes"), nb::kw_only(), nb::arg("title") = "", nb::arg("unit") = "")
      .def_prop_ro(
          "values", [](const Grid& self) { return at::Tensor(self.values()); }, documentation("Grid::values"))
      .def_prop_ro(
          "axes", [](const Grid& self) { return self.axes(); }, documentation("Grid::axes"))
      .def_prop_ro(
          "title", [](const Grid& self) { return self.title(); }, documentation("Grid::title"))
      .def_prop_ro(
          "unit", [](const Grid& self) { return self.unit(); }, documentation("Grid::unit"))
      .def(
          "axis", [](const Grid& self, const std::string& name) { return self.axis(name); }, nb::arg("name"),
          documentation("Grid::axis"))
      .def("at", &Grid::at, nb::arg("index"), documentation("Grid::at"))
      .def("cell", &Grid::cell, nb::arg("index"), documentation("Grid::cell"))
      .def("slice", &slice_at, nb::arg("axis"), nb::arg("place"), documentation("Grid::slice"))
      .def("__getitem__", &item, nb::arg("places"),
           nb::sig("def __getitem__(self, places: int | str | tuple[int | str, ...]) -> Grid | float"),
           "The grid at these places of the first axes, each by index or label: `grid[0, '3']`. With a place "
           "for "
           "each axis, the number.")
      .def("with_title", &Grid::with_title, nb::arg("title"), documentation("Grid::with_title"))
      .def("with_unit", &Grid::with_unit, nb::arg("unit"), documentation("Grid::with_unit"))
      .def("with_labels", &Grid::with_labels, nb::arg("axis"), nb::arg("labels"),
           documentation("Grid::with_labels"))
      .def_prop_ro(
          "interval", [](const Grid& self) { return self.interval(); }, documentation("Grid::interval"))
      .def(
          "with_interval",
          [](const Grid& self, Like<GridInterval> interval) { return self.with_interval(interval.take()); },
          nb::arg("interval"), documentation("Grid::with_interval"))
      .def("mean", &Grid::mean, nb::arg("axis"), documentation("Grid::mean"))
      .def(
          "largest",
          [](const Grid& self, std::size_t count, Like<LargestBy> by) {
            return self.largest(count, by.take());
          },
          nb::arg("count"), nb::arg("by") = "value", documentation("Grid::largest"))
      .def(
          "rescaled",
          [](const Grid& self, double zero, double one, std::string unit) {
            return self.rescaled(zero, one, std::move(unit));
          },
          nb::arg("zero"), nb::arg("one"), nb::arg("unit"), documentation("Grid::rescaled"))
      .def(
          "rescaled",
          [](const Grid& self, const Grid& zero, const Grid& one, std::string unit) {
            return self.rescaled(zero, one, std::move(unit));
          },
          nb::arg("zero"), nb::arg("one"), nb::arg("unit"));
}

void bind_intervals(nb::module_& module) {
  bind_enum<IntervalMethod>(module);
  define(
      module, "mean_interval", "mean_interval",
      [](const Grid& grid, IntervalOptions options) { return mean_interval(grid, options); },
      nb::arg("grid"));
  bind_result<DifferenceTest>(module);
  define(
      module, "difference_test", "difference_test",
      [](const Grid& left, const Grid& right, PermutationOptions options) {
        return difference_test(left, right, options);
      },
      nb::arg("left"), nb::arg("right"));
  define_plain(module, "share_interval", "share_interval", &share_interval, nb::arg("hits"),
               nb::arg("trials"), nb::arg("level") = 0.95);
}

}  // namespace

void bind_analysis_grids(nb::module_& module) {
  bind_enum<LargestBy>(module);
  bind_enum<PlotScale>(module);
  bind_struct<GridAxis>(module);
  bind_result<GridCell>(module);
  bind_struct<GridInterval>(module);
  bind_struct<HeatMapOptions>(module);
  bind_struct<LinePlotOptions>(module);
  GridClass grid(module, "Grid", documentation("Grid"));
  bind_numbers(grid);
  bind_arithmetic(grid);
  bind_grid_files(grid);
  bind_conversions(grid);
  grid.def("__repr__", &printed<Grid>);
  // NumPy asks the grid, not each of its elements.
  grid.attr("__array_ufunc__") = nb::none();
  bind_intervals(module);
  define(
      module, "heat_map_svg", "heat_map_svg",
      [](const Grid& grid, HeatMapOptions options) { return heat_map_svg(grid, options); }, nb::arg("grid"));
  define(
      module, "line_plot_svg", "line_plot_svg",
      [](const Grid& grid, LinePlotOptions options) { return line_plot_svg(grid, options); },
      nb::arg("grid"));
  define_plain(
      module, "bar_plot_svg", "bar_plot_svg", [](const Grid& grid) { return bar_plot_svg(grid); },
      nb::arg("grid"));
  define_plain(
      module, "token_axis", "token_axis",
      [](const HookedTransformer& model, const at::Tensor& ids, std::string name) {
        return token_axis(model, ids, std::move(name));
      },
      nb::arg("model"), nb::arg("ids"), nb::arg("name") = "pos");
}

}  // namespace hooked::python
