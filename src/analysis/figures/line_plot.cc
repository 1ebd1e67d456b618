#include "hooked/analysis/line_plot.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "analysis/figures/axis.h"
#include "analysis/figures/palette.h"
#include "analysis/figures/svg.h"
#include "analysis/values/csv.h"
#include "core/json.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr std::int64_t kSinglePoints = 4096;  // with more than this, several share one element
constexpr double kVisiblePoints = 9;          // pixels between points that get a dot
constexpr double kTickDistance = 36;          // pixels between ticks of the y axis, at least

constexpr const char* kLight = R"(.line-plot .lines{fill:none;stroke:#e4e7ea}
.line-plot .line{fill:none;stroke:currentColor;stroke-width:1.8;stroke-linejoin:round}
.line-plot .dot,.line-plot .beyond{fill:currentColor}
.line-plot .whisker{fill:none;stroke:currentColor;stroke-width:1.2;opacity:.65}
.line-plot .target{fill:none;stroke:none;stroke-width:10;pointer-events:stroke}
)";
constexpr const char* kDark = ".line-plot .lines{stroke:#2b3036}\n";

/// The labels as numbers; nothing unless there are at least two and they ascend.
std::vector<double> numbers_in(const std::vector<std::string>& labels) {
  std::vector<double> numbers;
  for (const auto& label : labels) {
    const auto number = parse_number(label);
    if (!number || !std::isfinite(*number) || (!numbers.empty() && *number <= numbers.back())) return {};
    numbers.push_back(*number);
  }
  return numbers.size() < 2 ? std::vector<double>() : numbers;
}

/// The numbers of a grid and the ends of their ranges.
std::vector<double> numbers_and_ends(const Grid& grid) {
  std::vector<double> numbers;
  const auto add = [&](const at::Tensor& held) {
    const auto* first = held.const_data_ptr<double>();
    numbers.insert(numbers.end(), first, first + held.numel());
  };
  add(grid.values());
  if (grid.interval()) {
    add(grid.interval()->low);
    add(grid.interval()->high);
  }
  return numbers;
}

/// Draws one grid; holds what the parts of the picture need of each other.
class LineDrawing {
 public:
  LineDrawing(const Grid& grid, const LinePlotOptions& options)
      : grid_(grid),
        x_axis_(grid.axes().back()),
        n_lines_(grid.axes().size() > 1 ? static_cast<std::int64_t>(grid.axes()[0].labels.size()) : 1),
        n_places_(static_cast<std::int64_t>(x_axis_.labels.size())),
        width_(static_cast<double>(options.width > 0 ? options.width : 460)),
        height_(static_cast<double>(options.height > 0 ? options.height : 280)),
        y_ticks_(std::max<std::size_t>(3, static_cast<std::size_t>(height_ / kTickDistance))),
        y_(PlotAxis::around(numbers_and_ends(grid), options.y, options.low, options.high, y_ticks_)) {
    while (n_lines_ * ((n_places_ + block_ - 1) / block_) > kSinglePoints && block_ < n_places_) ++block_;
    place_columns(options.x);
    const double cell = width_ / static_cast<double>(std::max<std::int64_t>(n_places_, 1));
    labels_ = LabelRow::below(x_axis_, cell);
    double widest = 0;
    for (const auto& tick : y_.ticks(y_ticks_))
      widest = std::max(widest, text_width(tick.label, kPictureFont));
    left_ = kPictureMargin + std::ceil(widest) + 8;
    if (!x_) left_ = std::max(left_, std::ceil(kPictureMargin + labels_.overhang() - cell / 2));
  }

  std::string svg() {
    draw_grid();
    const double foot = top_ + height_ + draw_x_labels();
    for (std::int64_t line = 0; line < n_lines_; ++line) draw_line(line);
    body_ += svg_text(left_ + width_ / 2, foot + kPictureFont + 2, "middle", x_axis_.name);
    const auto [right, bottom] = draw_legend(left_ + width_ + 18);
    return picture_page({.css_class = "line-plot",
                         .title = grid_.title(),
                         .unit = grid_.unit(),
                         .rules = rules(),
                         .body = body_,
                         .right = right,
                         .bottom = std::max(foot + kPictureFont + 4, bottom)});
  }

 private:
  void place_columns(PlotScale scale) {
    const auto numbers = numbers_in(x_axis_.labels);
    if (scale == PlotScale::logarithmic && (numbers.empty() || numbers.front() <= 0) && n_places_ > 1) {
      throw ConfigError(
          "line plot",
          fmt::format("the labels of axis '{}' do not lie on a logarithmic axis; expected ascending "
                      "numbers above zero, got '{}' to '{}'; take a linear axis",
                      x_axis_.name, printable(x_axis_.labels.front()), printable(x_axis_.labels.back())));
    }
    constexpr double kInset = 10;  // so that there is room for the first and the last dot
    if (!numbers.empty()) x_.emplace(scale, numbers.front(), numbers.back());
    for (std::int64_t i = 0; i < n_places_; ++i) {
      const auto place = static_cast<std::size_t>(i);
      columns_.push_back(x_ ? kInset + (width_ - 2 * kInset) * *x_->share(numbers[place])
                            : width_ * (static_cast<double>(i) + 0.5) / static_cast<double>(n_places_));
    }
  }

  double value(std::int64_t line, std::int64_t place) const {
    return grid_.values().const_data_ptr<double>()[line * n_places_ + place];
  }
  double column(std::int64_t place) const { return left_ + columns_[static_cast<std::size_t>(place)]; }
  double row(double share) const { return top_ + height_ * (1 - share); }

  /// Where a value is drawn: on its line, or beyond the upper (lower) edge by any distance. Values that
  /// exceed a limit only by float32's rounding do not count as beyond it.
  std::optional<double> share(double value) const {
    auto share = y_.share(value);
    if (share && std::abs(*share - std::clamp(*share, 0.0, 1.0)) < 1e-6) share = std::clamp(*share, 0.0, 1.0);
    return share;
  }

  void draw_grid() {
    std::string path;
    for (const auto& tick : y_.ticks(y_ticks_)) {
      const double y = row(*y_.share(tick.value));
      path += fmt::format("M{:.1f} {:.1f}h{:.1f}", left_, y, width_);
      body_ += svg_text(left_ - 6, y + kPictureFont * 0.36, "end tick", tick.label);
    }
    body_ += "<path class=\"lines\" d=\"" + path + "\"/>\n";
    const double zero = y_.low() < 0 && y_.high() > 0 && y_.share(0) ? row(*y_.share(0)) : row(0);
    body_ +=
        fmt::format("<path class=\"frame\" d=\"M{:.1f} {:.1f}v{:.1f}h{:.1f}{}\"/>\n", left_, top_, height_,
                    width_, zero < row(0) ? fmt::format("M{:.1f} {:.1f}h{:.1f}", left_, zero, width_) : "");
  }

  /// Returns how far the labels reach down.
  double draw_x_labels() {
    const double foot = top_ + height_;
    std::string path;
    const auto mark = [&](double x) { path += fmt::format("M{:.1f} {:.1f}v4", x, foot); };
    double reach = kPictureFont + 8;
    if (x_) {
      for (const auto& [x, label] : x_ticks()) {
        mark(x);
        body_ += svg_text(x, foot + kPictureFont + 5, "middle x-tick", label);
      }
    } else {
      for (std::int64_t place = 0; place < n_places_; place += labels_.step) {
        mark(column(place));
        body_ += labels_.below_element(place, column(place), foot + 2, "x-tick");
      }
      reach = labels_.height() + 2;
    }
    body_ += "<path class=\"frame\" d=\"" + path + "\"/>\n";
    return reach;
  }

  /// The places' own labels if all fit, else round numbers.
  std::vector<std::pair<double, std::string>> x_ticks() const {
    std::vector<std::pair<double, std::string>> ticks;
    for (std::int64_t place = 0; place < n_places_; ++place)
      ticks.emplace_back(column(place), visible_label(x_axis_.labels[static_cast<std::size_t>(place)]));
    const auto too_near = [](const auto& a, const auto& b) {
      return b.first - a.first <
             (text_width(a.second, kPictureFont) + text_width(b.second, kPictureFont)) / 2 + 6;
    };
    const auto overlap = [&] { return std::ranges::adjacent_find(ticks, too_near) != ticks.end(); };
    for (std::size_t most = 12; most >= 2 && overlap(); --most) {
      ticks.clear();
      for (const auto& tick : x_->ticks(most)) {
        const double first = columns_.front(), last = columns_.back();
        ticks.emplace_back(left_ + first + (last - first) * *x_->share(tick.value), tick.label);
      }
    }
    // If the picture is too narrow for all, the first ones are kept.
    ticks.erase(std::unique(ticks.begin(), ticks.end(), too_near), ticks.end());
    return ticks;
  }

  void draw_line(std::int64_t line) {
    body_ += fmt::format("<g class=\"series l{}\">\n", line);
    const auto path = line_path(line);
    if (!path.empty()) body_ += "<path class=\"line\" d=\"" + path + "\"/>\n";
    for (std::int64_t place = 0; place < n_places_; place += block_)
      draw_points(line, place, std::min(place + block_, n_places_));
    body_ += "</g>\n";
  }

  /// The segments between neighbours that both have a place, as far as they are between the limits.
  std::string line_path(std::int64_t line) const {
    std::string path;
    bool joined = false;  // to the segment before
    for (std::int64_t place = 0; place + 1 < n_places_; ++place) {
      const auto a = share(value(line, place)), b = share(value(line, place + 1));
      const auto inside = a && b ? inside_share(*a, *b) : std::nullopt;
      joined = joined && inside;
      if (!inside) continue;
      const auto at = [&](double t) {
        // The ends are exact: the distance of two far ones may be infinite.
        const double y = t <= 0 ? *a : t >= 1 ? *b : *a * (1 - t) + *b * t;
        return fmt::format("{:.1f} {:.1f}", column(place) * (1 - t) + column(place + 1) * t,
                           row(std::clamp(y, 0.0, 1.0)));
      };
      if (!joined || inside->first > 0) path += 'M' + at(inside->first);
      path += 'L' + at(inside->second);
      joined = inside->second >= 1;
    }
    return path;
  }

  /// The part of the segment from `a` to `b` that is between 0 and 1.
  static std::optional<std::pair<double, double>> inside_share(double a, double b) {
    if (a == b) return a < 0 || a > 1 ? std::nullopt : std::optional(std::pair(0.0, 1.0));
    const double at_low = (0 - a) / (b - a), at_high = (1 - a) / (b - a);
    const double from = std::max(0.0, std::min(at_low, at_high)),
                 to = std::min(1.0, std::max(at_low, at_high));
    if (!(from < to)) return std::nullopt;
    return std::pair(from, to);
  }

  /// The places of a block: a dot, a mark at the edge, and what pointing at them shows.
  void draw_points(std::int64_t line, std::int64_t begin, std::int64_t end) {
    NumberRange range;
    std::string dots, marks, target;
    for (std::int64_t place = begin; place < end; ++place) {
      const double number = value(line, place);
      if (std::isnan(number)) {
        has_nan_ = true;
        continue;
      }
      range.add(number);
      const double x = column(place);
      const auto at = share(number);
      if (at && *at >= 0 && *at <= 1) {
        if (has_dot(line, place))
          dots += fmt::format("<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>", x, row(*at));
        target += fmt::format("{}{:.1f} {:.1f}", target.empty() ? "M" : "L", x, row(*at));
        continue;
      }
      const bool above = number > y_.high();
      beyond_.insert(std::isinf(number)
                         ? (above ? "▲ ∞" : "▼ -∞")
                         : (above ? "▲ above " : "▼ below ") + readable_number(above ? y_.high() : y_.low()));
      if (!marks.empty()) continue;
      const double edge = row(above ? 1 : 0), tip = above ? -6 : 6;
      marks = fmt::format("<path class=\"beyond\" d=\"M{:.1f} {:.1f}h8l-4 {:g}z\"/>", x - 4, edge, tip);
    }
    if (range.empty()) return;
    const bool one = end - begin == 1;
    body_ += fmt::format("<g><title>{}: {}{}</title>", xml_text(place_of(line, begin, end)), range.words(),
                         one ? interval_words(grid_, line * n_places_ + begin) : "");
    if (one) body_ += whisker(line, begin);
    if (!target.empty()) {
      // For one place: a dot, because the ends are round.
      body_ += "<path class=\"target\" stroke-linecap=\"round\" d=\"" + target + "h.1\"/>";
    }
    body_ += dots + marks + "</g>\n";
  }

  /// The range of a place's number, as far as it is between the limits.
  std::string whisker(std::int64_t line, std::int64_t place) const {
    const auto ends = interval_at(grid_, line * n_places_ + place);
    if (!ends) return "";
    // On a logarithmic axis, what is not above zero is below the lowest line.
    const double low = share(ends->first).value_or(-1), high = share(ends->second).value_or(-1);
    if (high < 0 || low > 1) return "";
    constexpr double kCap = 6;
    const double x = column(place), y = row(std::max(low, 0.0)), top = row(std::min(high, 1.0));
    std::string path = fmt::format("M{:.1f} {:.1f}V{:.1f}", x, y, top);
    for (const auto& [inside, at] : {std::pair(low >= 0, y), std::pair(high <= 1, top)})
      if (inside) path += fmt::format("M{:.1f} {:.1f}h{:g}", x - kCap / 2, at, kCap);
    return "<path class=\"whisker\" d=\"" + path + "\"/>";
  }

  /// Dots are drawn if there is room for them, and for isolated values, which have no line.
  bool has_dot(std::int64_t line, std::int64_t place) const {
    if (width_ >= kVisiblePoints * static_cast<double>(n_places_)) return true;
    const auto joined = [&](std::int64_t other) {
      return other >= 0 && other < n_places_ && share(value(line, other));
    };
    return !joined(place - 1) && !joined(place + 1);
  }

  std::string place_of(std::int64_t line, std::int64_t begin, std::int64_t end) const {
    const bool several = grid_.axes().size() > 1;
    return (several ? place_words(grid_.axes()[0], line, line + 1) + ", " : "") +
           place_words(x_axis_, begin, end);
  }

  /// Which line is which, and what else there is to see; returns how far it reaches to the right and down.
  std::pair<double, double> draw_legend(double x) {
    constexpr double kLine = 18, kSample = 22;
    double y = top_, right = left_ + width_ + 8;
    const auto write = [&](double from, const char* css_class, const std::string& words) {
      body_ += svg_text(from, y + kPictureFont * 0.36, css_class, words);
      right = std::max(right, from + text_width(words, kPictureFont));
      y += kLine;
    };
    if (grid_.axes().size() > 1 && n_lines_ > 0) {
      const GridAxis& axis = grid_.axes()[0];
      write(x, "panel-title", axis.name);
      const double room = std::max(4.0, height_ / kLine - 3);
      const auto step = round_step(static_cast<double>(n_lines_) / room);
      for (std::int64_t line = 0; line < n_lines_; line += step) {
        body_ += fmt::format("<g class=\"series l{}\"><path class=\"line\" d=\"M{:.1f} {:.1f}h{:g}\"/>", line,
                             x, y, kSample - 6);
        body_ += fmt::format("<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>",
                             x + kSample / 2 - 3, y);
        write(x + kSample, "key", shortened(visible_label(axis.labels[static_cast<std::size_t>(line)]), 24));
        body_ += "</g>\n";
      }
      y += 6;
    }
    for (const auto& words : beyond_) write(x, "note", words);
    if (has_nan_) write(x, "note", "gap: NaN");
    if (grid_.interval() && block_ == 1) write(x, "note", "whiskers: " + grid_.interval()->about);
    return {right, y - kLine / 2};
  }

  PictureRules rules() const {
    PictureRules rules{.light = kLight, .dark = kDark};
    const auto light = line_colours(n_lines_, false), dark = line_colours(n_lines_, true);
    for (std::int64_t line = 0; line < n_lines_; ++line) {
      const auto i = static_cast<std::size_t>(line);
      rules.light += fmt::format(".line-plot .l{}{{color:{}}}\n", line, css_colour(light[i]));
      rules.dark += fmt::format(".line-plot .l{}{{color:{}}}\n", line, css_colour(dark[i]));
      if (n_lines_ > 1)
        rules.light += fmt::format(".line-plot:has(.l{0}:hover) .series:not(.l{0}){{opacity:.2}}\n", line);
    }
    return rules;
  }

  const Grid& grid_;
  const GridAxis& x_axis_;
  std::int64_t n_lines_, n_places_;
  double width_, height_;
  std::size_t y_ticks_;
  PlotAxis y_;
  std::optional<PlotAxis> x_;    // if the labels are numbers
  std::vector<double> columns_;  // of the places, in pixels from the left end
  LabelRow labels_;
  std::int64_t block_ = 1;  // places that share one element
  double left_ = 0, top_ = kPictureHeader + 8;
  std::set<std::string> beyond_;
  bool has_nan_ = false;
  std::string body_;
};

void check_pixels(const char* name, std::int64_t pixels) {
  if (pixels >= 0 && pixels <= 4000) return;
  throw ConfigError("line plot",
                    fmt::format("{} is out of range; expected 1 to 4000 pixels, got {}; 0 takes the "
                                "usual one",
                                name, pixels));
}

}  // namespace

std::string line_plot_svg(const Grid& grid, const LinePlotOptions& options) {
  if (grid.axes().empty() || grid.axes().size() > 2) {
    throw ShapeError("line plot",
                     fmt::format("'{}' has {} axes; expected one, or two with the lines along the first; {}",
                                 grid.title(), grid.axes().size(),
                                 grid.axes().empty() ? "print it instead" : "take a slice or a mean of it"));
  }
  check_pixels("width", options.width);
  check_pixels("height", options.height);
  return LineDrawing(grid, options).svg();
}

}  // namespace hooked
