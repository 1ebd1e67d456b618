#include "hooked/analysis/bar_plot.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "analysis/figures/axis.h"
#include "analysis/figures/palette.h"
#include "analysis/figures/svg.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr double kBarHeight = 16, kBarGap = 6;  // pixels: the height of a place's bars, and between places
constexpr double kBarsWidth = 340;              // pixels from the smallest number to the largest
constexpr std::size_t kNumberChars = 10;        // room for the number next to a bar

constexpr const char* kBarLight = R"(.bar-plot .lines{fill:none;stroke:#e4e7ea}
.bar-plot .bar{fill:currentColor}
.bar-plot .whisker{fill:none;stroke:#222;stroke-width:1.2}
.bar-plot .number{font-size:11px}
.bar-plot .target{fill:none;pointer-events:all}
.bar-plot .place:hover .target{fill:currentColor;opacity:.08}
)";
constexpr const char* kBarDark = ".bar-plot .lines{stroke:#2b3036}\n.bar-plot .whisker{stroke:#e2e4e8}\n";

/// Draws one grid; holds what the parts of the picture need of each other.
class BarDrawing {
 public:
  explicit BarDrawing(const Grid& grid)
      : grid_(grid),
        axis_(grid.axes().back()),
        n_series_(grid.axes().size() > 1 ? std::ssize(grid.axes()[0].labels) : 1),
        n_places_(std::ssize(axis_.labels)),
        values_(PlotAxis::around(numbers_with_zero(grid), PlotScale::linear, {}, {}, kTicks)) {
    step_ = (n_series_ == 1 ? kBarHeight : (kBarHeight - 4) * static_cast<double>(n_series_)) + kBarGap;
    labels_ = LabelRow::beside(axis_, step_);
    left_ = kPictureMargin + std::ceil(labels_.widest) + 8;
  }

  std::string svg() {
    draw_lines();
    for (std::int64_t place = 0; place < n_places_; ++place) draw_place(place);
    const double right = left_ + kBarsWidth + text_width(std::string(kNumberChars, '0'), 11);
    const auto [legend_right, legend_bottom] = draw_legend(right + 12);
    return picture_page({.css_class = "bar-plot",
                         .title = grid_.title(),
                         .unit = grid_.unit(),
                         .rules = rules(),
                         .body = body_,
                         .right = std::max(right, legend_right),
                         .bottom = std::max(bottom() + kPictureFont + 10, legend_bottom)});
  }

 private:
  static constexpr std::size_t kTicks = 6;

  /// The finite numbers of a grid and of their ranges, and 0, where bars begin.
  static std::vector<double> numbers_with_zero(const Grid& grid) {
    std::vector<double> numbers{0};
    const auto add = [&](const at::Tensor& held) {
      const auto* first = held.const_data_ptr<double>();
      std::copy_if(first, first + held.numel(), std::back_inserter(numbers),
                   [](double x) { return std::isfinite(x); });
    };
    add(grid.values());
    if (grid.interval()) {
      add(grid.interval()->low);
      add(grid.interval()->high);
    }
    if (std::ranges::all_of(numbers, [](double x) { return x == 0; })) numbers.push_back(1);
    return numbers;
  }

  double bottom() const { return top_ + step_ * static_cast<double>(n_places_); }
  double column(double value) const {
    return left_ + kBarsWidth * std::clamp(*values_.share(value), 0.0, 1.0);
  }

  void draw_lines() {
    std::string path;
    for (const auto& tick : values_.ticks(kTicks)) {
      const double x = column(tick.value);
      path += fmt::format("M{:.1f} {:.1f}V{:.1f}", x, top_, bottom());
      body_ += svg_text(x, bottom() + kPictureFont + 4, "middle tick", tick.label);
    }
    body_ += "<path class=\"lines\" d=\"" + path + "\"/>\n";
    body_ += fmt::format("<path class=\"frame\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>\n", column(0), top_, bottom());
  }

  void draw_place(std::int64_t place) {
    const double y = top_ + step_ * static_cast<double>(place);
    if (labels_.shows(place)) body_ += labels_.beside_element(place, left_ - 6, y + step_ / 2, "end label");
    const double height = (step_ - kBarGap) / static_cast<double>(n_series_);
    for (std::int64_t series = 0; series < n_series_; ++series)
      draw_bar(series, place, y + kBarGap / 2 + height * static_cast<double>(series), height);
  }

  void draw_bar(std::int64_t series, std::int64_t place, double y, double height) {
    const std::int64_t flat = series * n_places_ + place;
    const double value = grid_.values().const_data_ptr<double>()[flat];
    const std::string where =
        (n_series_ > 1 ? place_words(grid_.axes()[0], series, series + 1) + ", " : std::string()) +
        place_words(axis_, place, place + 1);
    body_ += fmt::format("<g class=\"place s{}\"><title>{}: {}{}</title>", series, xml_text(where),
                         readable_number(value), interval_words(grid_, flat));
    body_ +=
        svg_element("rect class=\"target\"", kPictureMargin, y, left_ + kBarsWidth - kPictureMargin, height);
    body_ += "/>";
    double reach = column(0);
    if (!std::isnan(value)) {
      // An infinite number reaches to the end of the axis.
      const double end = std::isinf(value) ? (value > 0 ? left_ + kBarsWidth : left_) : column(value);
      reach = std::max(reach, end);
      body_ += svg_element("rect class=\"bar\"", std::min(column(0), end), y + 1, std::abs(end - column(0)),
                           height - 2);
      body_ += "/>";
    }
    if (const auto ends = interval_at(grid_, flat)) {
      const double middle = y + height / 2, low = column(ends->first), high = column(ends->second);
      reach = std::max(reach, high);
      body_ +=
          fmt::format("<path class=\"whisker\" d=\"M{:.1f} {:.1f}H{:.1f}M{:.1f} {:.1f}v6M{:.1f} {:.1f}v6\"/>",
                      low, middle, high, low, middle - 3, high, middle - 3);
    }
    body_ += svg_text(reach + 5, y + height / 2 + 4, "number", readable_number(value)) + "</g>\n";
  }

  /// Which bar is which; returns how far it reaches to the right and down.
  std::pair<double, double> draw_legend(double x) {
    constexpr double kLine = 18;
    double y = top_ + 4, right = 0;
    if (n_series_ > 1) {
      body_ += svg_text(x, y + 4, "panel-title", grid_.axes()[0].name);
      for (std::int64_t series = 0; series < n_series_; ++series) {
        y += kLine;
        const auto words =
            shortened(visible_label(grid_.axes()[0].labels[static_cast<std::size_t>(series)]), 24);
        body_ += fmt::format("<g class=\"s{}\">", series) +
                 svg_element("rect class=\"bar\"", x, y - 5, 12, 10) + "/></g>" +
                 svg_text(x + 18, y + 4, "key", words);
        right = std::max(right, x + 18 + text_width(words, kPictureFont));
      }
      y += kLine;
    }
    if (grid_.interval()) {
      const std::string words = "whiskers: " + grid_.interval()->about;
      body_ += svg_text(left_, bottom() + 2 * kPictureFont + 10, "unit", words);
      right = std::max(right, left_ + text_width(words, 11));
      y = std::max(y, bottom() + 2 * kPictureFont + 14);
    }
    return {right, y};
  }

  PictureRules rules() const {
    PictureRules rules{.light = kBarLight, .dark = kBarDark};
    const auto light = line_colours(n_series_, false), dark = line_colours(n_series_, true);
    for (std::int64_t series = 0; series < n_series_; ++series) {
      const auto i = static_cast<std::size_t>(series);
      rules.light += fmt::format(".bar-plot .s{}{{color:{}}}\n", series, css_colour(light[i]));
      rules.dark += fmt::format(".bar-plot .s{}{{color:{}}}\n", series, css_colour(dark[i]));
    }
    return rules;
  }

  const Grid& grid_;
  const GridAxis& axis_;
  std::int64_t n_series_, n_places_;
  PlotAxis values_;
  double step_ = 0, left_ = 0, top_ = kPictureHeader + 4;
  LabelRow labels_;
  std::string body_;
};

}  // namespace

std::string bar_plot_svg(const Grid& grid) {
  if (grid.axes().empty() || grid.axes().size() > 2) {
    throw ShapeError("bar plot",
                     fmt::format("'{}' has {} axes; expected one, or two with several bars along the first; "
                                 "{}",
                                 grid.title(), grid.axes().size(),
                                 grid.axes().empty() ? "print it instead" : "take a slice or a mean of it"));
  }
  return BarDrawing(grid).svg();
}

}  // namespace hooked
