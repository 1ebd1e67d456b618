#include "hooked/analysis/heat_map.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "analysis/figures/axis.h"
#include "analysis/figures/heat_map_layout.h"
#include "analysis/figures/palette.h"
#include "analysis/figures/png_image.h"
#include "analysis/figures/svg.h"
#include "analysis/values/row_major.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

constexpr std::int64_t kMostNumbers = 400;

constexpr const char* kHeatMapStyle = R"(.heat-map .lines{fill:#d4d8dc}
.heat-map .band{fill:none;stroke:#000;stroke-width:1.5;visibility:hidden;pointer-events:none}
.heat-map .square{fill:none;pointer-events:all}
.heat-map .number{fill:currentColor;text-anchor:middle;pointer-events:none}
.heat-map .mark{fill:currentColor;stroke:none;pointer-events:none}
.heat-map .pixels{image-rendering:pixelated}
.heat-map .dark{display:none}
)";
constexpr const char* kDarkHeatMapStyle = R"(.heat-map .lines{fill:#33383e}
.heat-map .band{stroke:#fff}
.heat-map .light{display:none}
.heat-map .dark{display:inline}
)";

/// Draws one grid; holds what the parts of the picture need of each other.
class Drawing {
 public:
  Drawing(const Grid& grid, const HeatMapOptions& options)
      : grid_(grid),
        layout_(grid, options),
        blank_(blank_cells(grid, options.blank)),
        scale_(grid.values(), blank_, options),
        numbers_(number_format()) {}

  std::string svg() {
    for (std::int64_t p = 0; p < layout_.panels; ++p) draw_panel(p);
    const double middle = (layout_.left + layout_.right()) / 2;
    const double foot = layout_.bottom() + layout_.label_height;
    body_ += svg_text(middle, foot + kPictureFont + 2, "middle", grid_.axes().back().name);
    if (has_rows()) {
      const double centre = std::max((layout_.top + layout_.bottom()) / 2,
                                     layout_.top + text_width(row_axis().name, kPictureFont) / 2);
      body_ += svg_text(0, 0, "middle", row_axis().name,
                        fmt::format(" transform=\"translate(22,{:.0f}) rotate(-90)\"", centre));
    }
    auto unit = grid_.unit();
    if (numbers_ && numbers_->exponent != 0)
      unit += fmt::format("{}numbers in cells × 10{}", unit.empty() ? "" : " · ",
                          superscript(numbers_->exponent));
    const auto [right, bottom] = draw_legend(layout_.right() + 18, layout_.top);
    return picture_page({.css_class = "heat-map",
                         .title = grid_.title(),
                         .unit = unit,
                         .rules = rules(),
                         .body = body_,
                         .right = right,
                         .bottom = std::max(foot + kPictureFont + 4, bottom)});
  }

 private:
  /// A square of cells of one panel, one cell if there are few: half-open ranges of rows and columns.
  struct Square {
    std::int64_t panel, row, row_end, column, column_end;
  };

  bool has_rows() const { return grid_.axes().size() > 1; }
  const GridAxis& row_axis() const { return grid_.axes()[grid_.axes().size() - 2]; }
  std::int64_t flat(std::int64_t panel, std::int64_t row, std::int64_t column) const {
    return (panel * layout_.rows + row) * layout_.columns + column;
  }
  double value(std::int64_t flat) const { return grid_.values().const_data_ptr<double>()[flat]; }
  Paint paint(std::int64_t flat) const {
    return blank_.const_data_ptr<bool>()[flat] ? Paint{Paint::blank} : scale_.paint(value(flat));
  }

  std::optional<NumberFormat> number_format() const {
    const auto count = grid_.values().numel();
    if (count > kMostNumbers) return std::nullopt;
    std::vector<double> shown;
    for (std::int64_t i = 0; i < count; ++i) {
      if (paint(i).is_level()) shown.push_back(value(i));
    }
    auto format = NumberFormat::that_fits(shown, layout_.cell);
    if (format) format->keeps_small = grid_.unit().starts_with("probability");  // as tables of them do
    return format;
  }

  void draw_panel(std::int64_t p) {
    const double left = layout_.panel_left(p), top = layout_.panel_top(p);
    body_ += "<g class=\"panel\">\n";
    if (!layout_.panel_titles.empty())
      body_ += svg_text(left, top - 8, "panel-title", layout_.panel_titles[static_cast<std::size_t>(p)]);
    if (layout_.is_image()) {
      draw_image(p);
      body_ += svg_element("rect", left - 0.5, top - 0.5, layout_.panel_width + 1, layout_.panel_height + 1) +
               " class=\"frame\"/>\n";
    } else if (layout_.cell >= 6) {
      draw_lines(p);
    }
    const auto block = layout_.block;
    for (std::int64_t r = 0; r < layout_.rows; r += block) {
      body_ += fmt::format("<g class=\"r{}\">\n", r / block);
      for (std::int64_t c = 0; c < layout_.columns; c += block) {
        draw_square({p, r, std::min(r + block, layout_.rows), c, std::min(c + block, layout_.columns)});
      }
      body_ += "</g>\n";
    }
    draw_bands(left, top);
    if (has_rows() && p % layout_.per_row == 0) draw_row_labels(top);
    if (!layout_.has_panel_below(p)) draw_column_labels(left, top + layout_.panel_height);
    body_ += "</g>\n";
  }

  /// What is visible between the cells and around them; blank cells have no lines.
  void draw_lines(std::int64_t p) {
    std::string path;
    for (std::int64_t r = 0; r < layout_.rows; ++r) {
      for (std::int64_t c = 0; c < layout_.columns;) {
        auto end = c;
        while (end < layout_.columns && paint(flat(p, r, end)) != Paint{Paint::blank}) ++end;
        if (end > c) {
          path += fmt::format("M{:g} {:g}h{}v{}h-{}z",
                              layout_.panel_left(p) + static_cast<double>(c * layout_.cell) - 1,
                              layout_.panel_top(p) + static_cast<double>(r * layout_.cell) - 1,
                              (end - c) * layout_.cell + 1, layout_.cell + 1, (end - c) * layout_.cell + 1);
        }
        c = std::max(end, c + 1);
      }
    }
    if (!path.empty()) body_ += "<path class=\"lines\" d=\"" + path + "\"/>\n";
  }

  void draw_image(std::int64_t p) {
    std::vector<std::uint8_t> places;
    for (std::int64_t i = flat(p, 0, 0); i < flat(p + 1, 0, 0); ++i) {
      places.push_back(paint(i).code);
      used_.insert(paint(i));
    }
    for (const bool dark : {false, true}) {
      const auto palette = scale_.colours(dark);
      body_ += svg_element("image", layout_.panel_left(p), layout_.panel_top(p), layout_.panel_width,
                           layout_.panel_height) +
               fmt::format(" preserveAspectRatio=\"none\" class=\"pixels {}\" href=\"{}\"/>\n",
                           dark ? "dark" : "light",
                           png_data_address(places, static_cast<std::size_t>(layout_.columns), palette));
    }
  }

  void draw_square(const Square& square) {
    NumberRange range;
    bool empty = true;
    for (std::int64_t r = square.row; r < square.row_end; ++r) {
      for (std::int64_t c = square.column; c < square.column_end; ++c) {
        const auto i = flat(square.panel, r, c);
        if (paint(i) == Paint{Paint::blank}) continue;
        empty = false;
        range.add(value(i));
      }
    }
    if (empty) return;

    const auto first = flat(square.panel, square.row, square.column);
    const bool one = square.row_end - square.row == 1 && square.column_end - square.column == 1;
    const std::string words = range.words() + (one ? interval_words(grid_, first) : "");
    const auto cell = static_cast<double>(layout_.cell);
    const double gap = layout_.is_image() || layout_.cell < 6 ? 0 : 1;
    const double x = layout_.panel_left(square.panel) + cell * static_cast<double>(square.column);
    const double y = layout_.panel_top(square.panel) + cell * static_cast<double>(square.row);
    body_ += fmt::format("<g class=\"{} c{}\"><title>{}: {}</title>",
                         layout_.is_image() ? "square" : used(paint(first)), square.column / layout_.block,
                         xml_text(place(square)), words);
    body_ += svg_element("rect", x, y, cell * static_cast<double>(square.column_end - square.column) - gap,
                         cell * static_cast<double>(square.row_end - square.row) - gap) +
             "/>";
    if (!layout_.is_image()) draw_inside(first, x, y);
    body_ += "</g>\n";
  }

  /// The number of a cell, and a mark on numbers that are not ordinary.
  void draw_inside(std::int64_t flat, double x, double y) {
    const auto cell = static_cast<double>(layout_.cell);
    const Paint own = paint(flat);
    const auto words = numbers_ ? numbers_->if_it_fits(value(flat), layout_.cell) : std::string();
    const bool has_text = !words.empty();
    if (has_text) {
      body_ +=
          fmt::format("<text class=\"number\" x=\"{:.1f}\" y=\"{:.1f}\" style=\"font-size:{}px\">{}</text>",
                      x + (cell - 1) / 2, y + cell / 2 + numbers_->font * 0.36, numbers_->font, words);
    }
    if (cell < 8 || own.is_level()) return;
    const double size = has_text ? cell * 0.22 : cell * 0.3, right = x + cell - 2, low = y + cell - 2;
    std::string path;
    if (own.code == Paint::nan) {
      if (has_text) return;
      const double a = cell * 0.3, w = cell * 0.4, t = std::max(1.0, cell * 0.06);
      path = fmt::format("M{:g} {:g}l{:g} {:g}h{:g}l{:g} {:g}zm{:g} 0l{:g} {:g}h{:g}l{:g} {:g}z", x + a,
                         y + a, w, w, t, -w, -w, w, -w, w, t, w, -w);
    } else if (own.code == Paint::above || own.code == Paint::infinity) {
      path = fmt::format("M{:g} {:g}h{:g}l{:g} {:g}z", right - size, y + 1 + size, size, -size / 2, -size);
    } else {
      path = fmt::format("M{:g} {:g}h{:g}l{:g} {:g}z", right - size, low - size, size, -size / 2, size);
    }
    body_ += "<path class=\"mark\" d=\"" + path + "\"/>";
  }

  /// `layer 0, query 3 a, key 2 b`; from the first to the last if a square is more than a cell.
  std::string place(const Square& square) const {
    const auto& axes = grid_.axes();
    std::string words;
    for (const auto& [axis, place] : panel_place(grid_, square.panel)) {
      const auto index = static_cast<std::int64_t>(place);
      words += place_words(*axis, index, index + 1) + ", ";
    }
    if (has_rows()) words += place_words(row_axis(), square.row, square.row_end) + ", ";
    return words + place_words(axes.back(), square.column, square.column_end);
  }

  /// Frames around each row and column, visible while the pointer is on one of its cells in any panel.
  void draw_bands(double left, double top) {
    const double width = layout_.panel_width, height = layout_.panel_height;
    const auto side = static_cast<double>(layout_.block * layout_.cell);
    for (double i = 0; has_rows() && i * side < height; ++i) {
      body_ +=
          svg_element("rect", left - 0.5, top + i * side - 0.5, width, std::min(side, height - i * side)) +
          fmt::format(" class=\"band in-r{:g}\"/>\n", i);
    }
    for (double i = 0; i * side < width; ++i) {
      body_ +=
          svg_element("rect", left + i * side - 0.5, top - 0.5, std::min(side, width - i * side), height) +
          fmt::format(" class=\"band in-c{:g}\"/>\n", i);
    }
  }

  void draw_row_labels(double top) {
    const auto& labels = layout_.row_labels;
    for (std::int64_t r = 0; r < layout_.rows; r += labels.step) {
      const double y = top + static_cast<double>(layout_.cell) * (static_cast<double>(r) + 0.5);
      body_ += labels.beside_element(r, layout_.left - 6, y, fmt::format("in-r{}", r / layout_.block));
    }
  }

  void draw_column_labels(double left, double foot) {
    const auto& labels = layout_.column_labels;
    for (std::int64_t c = 0; c < layout_.columns; c += labels.step) {
      const double x = left + static_cast<double>(layout_.cell) * (static_cast<double>(c) + 0.5);
      body_ += labels.below_element(c, x, foot, fmt::format("in-c{}", c / layout_.block));
    }
  }

  /// The colour bar and what the other colours mean; returns how far it reaches to the right and down.
  std::pair<double, double> draw_legend(double x, double top) {
    constexpr double kBarWidth = 12;
    constexpr int kSteps = 50;
    const double height =
        std::clamp(std::floor((layout_.bottom() - layout_.top) / kSteps), 2.0, 5.0) * kSteps;
    const double step = height / kSteps;
    for (int i = 0; i < kSteps; ++i) {
      const double t = (kSteps - 1 - i) / (kSteps - 1.0);
      body_ +=
          fmt::format("<g class=\"{}\">", used(scale_.paint(scale_.low() * (1 - t) + scale_.high() * t)));
      body_ += svg_element("rect", x, top + i * step, kBarWidth, step) + "/></g>\n";
    }
    body_ += svg_element("rect", x - 0.5, top - 0.5, kBarWidth + 1, height + 1) + " class=\"frame\"/>\n";
    double right = x;
    const auto write = [&](double y, const std::string& words) {
      body_ += svg_text(x + kBarWidth + 6, y + kPictureFont * 0.36, "tick", words);
      right = std::max(right, x + kBarWidth + 6 + text_width(words, kPictureFont));
    };
    const double low = scale_.low(), high = scale_.high();
    const double middle = (scale_.middle() / 2 - low / 2) / (high / 2 - low / 2);
    write(top, readable_number(high));
    if (middle * height > kPictureFont + 2 && (1 - middle) * height > kPictureFont + 2)
      write(top + (1 - middle) * height, readable_number(scale_.middle()));
    write(top + height, readable_number(low));

    double y = top + height + 26;
    const std::map<std::uint8_t, std::string> others = {{Paint::above, "above " + readable_number(high)},
                                                        {Paint::below, "below " + readable_number(low)},
                                                        {Paint::infinity, "∞"},
                                                        {Paint::minus_infinity, "-∞"},
                                                        {Paint::nan, "NaN"}};
    for (const auto& [code, words] : others) {
      if (!used_.contains(Paint{code})) continue;
      body_ += fmt::format("<g class=\"{}\">", used(Paint{code}));
      body_ += svg_element("rect", x, y - 6, kBarWidth, kBarWidth) + "/></g>\n";
      write(y, words);
      y += 18;
    }
    return {right, y - 14};
  }

  /// The classes of the paints used, and what is marked (`in-r3`, `in-c5`) while the pointer is on a cell of
  /// row 3 (`r3`) and column 5 (`c5`).
  PictureRules rules() const {
    PictureRules rules{.light = kHeatMapStyle, .dark = kDarkHeatMapStyle};
    for (const auto& paint : used_) {
      rules.light += scale_.css_rule(paint, false);
      rules.dark += scale_.css_rule(paint, true);
    }
    std::string marked;
    const auto mark = [&](char axis, std::int64_t cells) {
      for (std::int64_t i = 0; layout_.panels > 0 && i * layout_.block < cells; ++i) {
        marked += marked.empty() ? "" : ",\n";
        marked += fmt::format(".heat-map:has(.{0}{1}:hover) .in-{0}{1}", axis, i);
      }
    };
    if (has_rows()) mark('r', layout_.rows);
    mark('c', layout_.columns);
    if (!marked.empty()) rules.light += marked + "{visibility:visible;font-weight:700}\n";
    return rules;
  }

  /// The class of a paint, which is then included in the style sheet.
  std::string used(Paint paint) {
    used_.insert(paint);
    return scale_.css_class(paint);
  }

  const Grid& grid_;
  HeatMapLayout layout_;
  at::Tensor blank_;  // bool, the shape of the values
  ColourScale scale_;
  std::optional<NumberFormat> numbers_;
  std::set<Paint> used_;
  std::string body_;
};

}  // namespace

std::string heat_map_svg(const Grid& grid, const HeatMapOptions& options) {
  if (grid.axes().empty()) {
    throw ShapeError("heat map", fmt::format("'{}' is one number and no table; expected at least one axis; "
                                             "print it instead",
                                             grid.title()));
  }
  if (options.cell < 0 || options.cell > 400) {
    throw ConfigError("heat map", fmt::format("the side of a cell is out of range; expected 1 to 400 pixels, "
                                              "got {}; 0 chooses it by the number of cells",
                                              options.cell));
  }
  if (options.panels_per_row < 0) {
    throw ConfigError("heat map", fmt::format("panels_per_row is negative; expected at least 1, got {}; 0 "
                                              "chooses it by the number of panels",
                                              options.panels_per_row));
  }
  return Drawing(grid, options).svg();
}

}  // namespace hooked
