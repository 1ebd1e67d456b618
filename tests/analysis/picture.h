#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>

#include <limits>
#include <string>
#include <vector>

#include "hooked/analysis/heat_map.h"
#include "tests/analysis/svg_reader.h"

namespace hooked {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline std::vector<std::string> numbered(std::int64_t count, const std::string& word = "") {
  std::vector<std::string> all;
  for (std::int64_t i = 0; i < count; ++i) all.push_back(std::to_string(i) + word);
  return all;
}

/// A grid with the last of the axes given.
inline Grid grid_of(const at::Tensor& values, std::vector<std::string> names = {"layer", "row", "column"}) {
  std::vector<GridAxis> axes;
  for (std::int64_t i = 0; i < values.dim(); ++i) {
    const auto name = names[names.size() - static_cast<std::size_t>(values.dim() - i)];
    axes.push_back({name, numbered(values.size(i))});
  }
  return Grid(values, std::move(axes), {.title = "A title", .unit = "a unit"});
}

inline Grid row_grid(const std::vector<double>& values) { return grid_of(at::tensor(values, at::kDouble)); }

inline Grid causal_pattern(std::int64_t size) {
  const auto scores = at::randn({size, size}, at::kDouble);
  const auto later = at::ones({size, size}, at::kBool).triu(1);
  return grid_of(at::softmax(scores.masked_fill(later, -kInfinity), -1), {"query", "key"});
}

/// A picture as its reader sees it.
struct Picture {
  explicit Picture(const Grid& grid, const HeatMapOptions& options = {})
      : text(heat_map_svg(grid, options)), root(SvgReader::read(text)) {}

  struct Cell {
    std::string paint;  ///< its first class
    std::string title;
    std::string number;  ///< empty where none is shown
    bool has_mark;
    double x, y, side;
  };

  /// The elements that have a place, in the order of the grid.
  std::vector<Cell> cells() const {
    std::vector<Cell> all;
    for (const auto* g : root.all([](const auto& e) { return e.name == "g" && e.child("title"); })) {
      const auto* rect = g->child("rect");
      const auto* number = g->child("text");
      const auto classes = g->attribute("class");
      all.push_back({classes.substr(0, classes.find(' ')), g->child("title")->text,
                     number ? number->text : "", g->child("path") != nullptr, rect->number("x"),
                     rect->number("y"), rect->number("width")});
    }
    return all;
  }
  std::vector<std::string> paints() const {
    std::vector<std::string> all;
    for (const auto& cell : cells()) all.push_back(cell.paint);
    return all;
  }
  /// The words of a class, in the order of the picture.
  std::vector<std::string> words(const std::string& of_class) const {
    std::vector<std::string> all;
    for (const auto* e : root.all([&](const auto& e) { return e.name == "text" && e.has_class(of_class); }))
      all.push_back(e->text);
    return all;
  }
  std::vector<std::string> numbers() const {
    std::vector<std::string> all;
    for (const auto& cell : cells()) all.push_back(cell.number);
    return all;
  }
  std::string style(bool dark) const {
    const auto& sheet = root.child("style")->text;
    const auto begin = sheet.find("@media");
    return dark ? sheet.substr(begin) : sheet.substr(0, begin);
  }
  /// `fill` or `color` of a paint; empty where the style sheet does not have it.
  std::string colour(const std::string& paint, bool dark = false,
                     const std::string& property = "fill") const {
    const auto sheet = style(dark);
    const auto rule = sheet.find(" ." + paint + "{");
    if (rule == std::string::npos) return "";
    const auto at = sheet.find(property + ":", rule) + property.size() + 1;
    return sheet.substr(at, sheet.find_first_of(";}", at) - at);
  }
  std::string fill(std::size_t cell) const { return colour(cells().at(cell).paint); }

  std::string text;
  SvgElement root;
};

}  // namespace hooked
