#include "analysis/figures/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "analysis/figures/svg.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr const char* kLinePlot = "line plot";

// Smaller numbers are zero here: processors may treat them as zero.
constexpr double kSmallest = std::numeric_limits<double>::min();

/// The number of the form 1, 2, 5 times a power of ten next to `number` on one side, or `number` itself.
double round_number(double number, bool up) {
  const double power = std::pow(10.0, std::floor(std::log10(number)));
  double below = number;
  for (const double digit : {1.0, 2.0, 5.0, 10.0}) {
    const double round = digit * power;
    if (round >= number * (1 - 1e-9)) return up || round <= number * (1 + 1e-9) ? round : below;
    below = round;
  }
  return below;
}

/// The distance of linear ticks; halves, because the distance of two numbers may be infinite.
double linear_distance(double low, double high, std::size_t most) {
  const double share = 2 / static_cast<double>(std::max<std::size_t>(most, 3) - 1);
  return round_number(std::max((high / 2 - low / 2) * share, kSmallest), true);
}

constexpr double kSinus = 0.7072;         // of the angle by which labels tilt
constexpr double kLine = 1.15;            // of the font's size
constexpr std::size_t kLabelLength = 24;  // characters

/// Labels whose lines need `line` times the font's size of each cell.
LabelRow labels_of(const GridAxis& axis, double cell, double line) {
  LabelRow labels;
  for (const auto& label : axis.labels) labels.texts.push_back(shortened(visible_label(label), kLabelLength));
  labels.font = std::clamp(cell / line, 9.0, 12.0);
  return labels;
}

double widest_shown(const LabelRow& labels) {
  double widest = 0;
  for (std::size_t i = 0; i < labels.texts.size(); ++i) {
    if (labels.shows(static_cast<std::int64_t>(i)))
      widest = std::max(widest, text_width(labels.texts[i], labels.font));
  }
  return widest;
}

std::string label_element(const LabelRow& labels, std::int64_t place, double x, double y,
                          std::string_view css_class, std::string_view turn) {
  return svg_text(x, y, css_class, labels.texts[static_cast<std::size_t>(place)],
                  fmt::format(" transform=\"translate({:.1f},{:.1f}){}\" style=\"font-size:{:.1f}px\"", x, y,
                              turn, labels.font));
}

}  // namespace

std::int64_t round_step(double number) {
  return std::llround(round_number(std::max(1.0, number - 1e-6), true));
}

void NumberRange::add(double number) {
  has_nan = has_nan || std::isnan(number);
  lowest = std::min(lowest, number);  // NaN changes neither
  highest = std::max(highest, number);
}

std::string NumberRange::words() const {
  std::string words = empty() ? "" : readable_number(lowest);
  if (lowest < highest) words += " to " + readable_number(highest);
  if (has_nan) words += words.empty() ? "NaN" : ", NaN";
  return words;
}

std::optional<std::pair<double, double>> interval_at(const Grid& grid, std::int64_t flat) {
  if (!grid.interval()) return std::nullopt;
  const std::pair ends(grid.interval()->low.const_data_ptr<double>()[flat],
                       grid.interval()->high.const_data_ptr<double>()[flat]);
  if (std::isnan(ends.first) || std::isnan(ends.second)) return std::nullopt;
  return ends;
}

std::string interval_words(const Grid& grid, std::int64_t flat) {
  const auto ends = interval_at(grid, flat);
  return ends ? fmt::format(" [{}, {}]", readable_number(ends->first), readable_number(ends->second)) : "";
}

void require_finite(const char* where, const char* name, std::optional<double> number) {
  if (!number || std::isfinite(*number)) return;
  throw ConfigError(where, fmt::format("{} is not finite; expected a number, got {}; leave it out to have "
                                       "it chosen by the grid's numbers",
                                       name, *number));
}

void require_limits(const char* where, std::optional<double> low, std::optional<double> high) {
  require_finite(where, "low", low);
  require_finite(where, "high", high);
  if (!low || !high || *low < *high) return;
  throw ConfigError(where, fmt::format("the limits are the wrong way round; expected low below high, got "
                                       "low {} and high {}; exchange them",
                                       *low, *high));
}

LabelRow LabelRow::beside(const GridAxis& axis, double cell) {
  LabelRow labels = labels_of(axis, cell, kLine);
  labels.step = round_step(kLine * labels.font / cell);
  labels.widest = widest_shown(labels);
  return labels;
}

LabelRow LabelRow::below(const GridAxis& axis, double cell) {
  constexpr double kTiltedLine = kLine / kSinus;
  LabelRow labels = labels_of(axis, cell, kTiltedLine);
  const auto lying = round_step((widest_shown(labels) + 6) / cell),
             tilted = round_step(kTiltedLine * labels.font / cell);
  labels.tilted = lying > 1 && (tilted == 1 || lying > 4 * tilted);
  labels.step = labels.tilted ? tilted : lying;
  labels.widest = widest_shown(labels);
  return labels;
}

double LabelRow::height() const { return tilted ? kSinus * (widest + font) + 8 : font + 8; }

double LabelRow::overhang() const { return tilted ? kSinus * (widest + font) : 0; }

std::string LabelRow::beside_element(std::int64_t place, double right, double y,
                                     std::string_view css_class) const {
  return label_element(*this, place, right, y + font * 0.36, fmt::format("end {}", css_class), "");
}

std::string LabelRow::below_element(std::int64_t place, double x, double foot,
                                    std::string_view css_class) const {
  return tilted ? label_element(*this, place, x + 4, foot + font, fmt::format("end {}", css_class),
                                " rotate(-45)")
                : label_element(*this, place, x, foot + font + 4, fmt::format("middle {}", css_class), "");
}

std::string place_words(const GridAxis& axis, std::int64_t begin, std::int64_t end) {
  const auto label = [&](std::int64_t i) {
    return shortened(visible_label(axis.labels[static_cast<std::size_t>(i)]), end - begin > 1 ? 12 : 40);
  };
  return axis.name + ' ' + label(begin) + (end - begin > 1 ? " – " + label(end - 1) : "");
}

PlotAxis PlotAxis::around(std::span<const double> numbers, PlotScale scale, std::optional<double> low,
                          std::optional<double> high, std::size_t ticks) {
  require_limits(kLinePlot, low, high);
  const bool logarithmic = scale == PlotScale::logarithmic;
  for (const auto& [name, limit] : {std::pair{"low", low}, {"high", high}}) {
    if (!logarithmic || limit.value_or(1) >= kSmallest) continue;
    throw ConfigError(kLinePlot, fmt::format("{} does not lie on a logarithmic axis; expected a number above "
                                             "zero, got {}; leave it out or take a linear axis",
                                             name, *limit));
  }
  NumberRange range;
  for (const double number : numbers) {
    if (std::isfinite(number) && (!logarithmic || number >= kSmallest)) range.add(number);
  }
  if (range.empty()) {
    if (logarithmic && !numbers.empty()) {
      throw ConfigError(kLinePlot,
                        "a logarithmic axis has nothing to show; expected a finite number above "
                        "zero, got none; take a linear axis");
    }
    range.add(logarithmic ? 1 : 0);
  }
  if (logarithmic) {
    double from = low.value_or(round_number(range.lowest, false)),
           to = high.value_or(round_number(range.highest, true));
    if (!std::isfinite(to)) to = std::numeric_limits<double>::max();
    from = std::max(from, kSmallest);
    // One number, or all of them beyond the given limit.
    if (from >= to && low) to = from * 10;
    if (from >= to) from = to / 10;
    return {scale, from, to};
  }
  double from = low.value_or(std::min(range.lowest, high ? std::min(0.0, *high) : 0.0));
  double to = high.value_or(std::max(range.highest, low ? std::max(0.0, *low) : 0.0));
  if (to / 2 - from / 2 < 8 * kSmallest) {
    if (high) {
      from = to - std::max(1.0, std::abs(to));
    } else {
      to = from + std::max(1.0, std::abs(from));
    }
  }
  const double step = linear_distance(from, to, ticks);
  const auto outward = [&](double limit, double rounded) { return std::isfinite(rounded) ? rounded : limit; };
  if (!low) from = outward(from, std::floor(from / step + 1e-9) * step);
  if (!high) to = outward(to, std::ceil(to / step - 1e-9) * step);
  return {scale, from, to};
}

std::optional<double> PlotAxis::share(double value) const {
  if (!std::isfinite(value)) return std::nullopt;
  if (scale_ == PlotScale::linear) return (value / 2 - low_ / 2) / (high_ / 2 - low_ / 2);
  if (value < kSmallest) return std::nullopt;
  return (std::log(value) - std::log(low_)) / (std::log(high_) - std::log(low_));
}

std::vector<double> PlotAxis::linear_ticks(std::size_t most) const {
  const double step = linear_distance(low_, high_, most);
  std::vector<double> ticks;
  const double first = std::ceil(low_ / step - 1e-9), last = std::floor(high_ / step + 1e-9);
  for (double i = first; i <= last && ticks.size() < most; ++i) ticks.push_back(i * step + 0.0);
  return ticks;
}

std::vector<double> PlotAxis::logarithmic_ticks(std::size_t most) const {
  const double first = std::floor(std::log10(low_)), last = std::ceil(std::log10(high_));
  const auto within = [&](std::initializer_list<double> digits, double decades) {
    std::vector<double> ticks;
    for (double decade = std::ceil(first / decades) * decades; decade <= last; decade += decades) {
      for (const double digit : digits) {
        const double tick = digit * std::pow(10.0, decade);
        if (tick >= low_ * (1 - 1e-9) && tick <= high_ * (1 + 1e-9) && std::isfinite(tick))
          ticks.push_back(tick);
      }
    }
    return ticks;
  };
  std::vector<double> ticks = within({1, 2, 5}, 1);
  for (double decades = 1; ticks.size() > most; ++decades) ticks = within({1}, decades);
  return ticks.size() < 2 ? linear_ticks(most) : ticks;
}

std::vector<PlotAxis::Tick> PlotAxis::ticks(std::size_t most) const {
  auto values = scale_ == PlotScale::linear ? linear_ticks(most) : logarithmic_ticks(most);
  if (values.size() < 2) values = {low_, high_};
  // As many digits as are needed to distinguish neighbours.
  int digits = 6;
  const auto same = [&] {
    return std::adjacent_find(values.begin(), values.end(), [&](double a, double b) {
             return readable_number(a, digits) == readable_number(b, digits);
           }) != values.end();
  };
  while (digits < 17 && same()) ++digits;
  std::vector<Tick> ticks;
  for (const double value : values) ticks.push_back({value, readable_number(value, digits)});
  return ticks;
}

}  // namespace hooked
