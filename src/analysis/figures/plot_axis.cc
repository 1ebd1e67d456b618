#include "analysis/figures/plot_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "analysis/figures/picture_text.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr const char* kLinePlot = "line plot";

// Smaller numbers are zero here: processors may treat them as zero.
constexpr double kSmallest = std::numeric_limits<double>::min();

/// The least of 1, 2, 5 times a power of ten that is at least `number`.
double round_distance(double number) {
  const double power = std::pow(10.0, std::floor(std::log10(number)));
  for (const double digit : {1.0, 2.0, 5.0}) {
    if (digit * power >= number * (1 - 1e-9)) return digit * power;
  }
  return 10 * power;
}

/// The distance of linear ticks; halves, because the distance of two numbers may be infinite.
double linear_distance(double low, double high, std::size_t most) {
  const double share = 2 / static_cast<double>(std::max<std::size_t>(most, 3) - 1);
  return round_distance(std::max((high / 2 - low / 2) * share, kSmallest));
}

/// The number of the form 1, 2, 5 times a power of ten next to `number` on one side, or `number` itself.
double round_number(double number, bool up) {
  const double power = std::pow(10.0, std::floor(std::log10(number)));
  constexpr std::array<double, 4> kDigits = {1, 2, 5, 10};
  if (up) {
    for (const double digit : kDigits) {
      if (digit * power >= number * (1 - 1e-9)) return digit * power;
    }
  }
  for (std::size_t i = kDigits.size(); i-- > 0;) {
    if (kDigits[i] * power <= number * (1 + 1e-9)) return kDigits[i] * power;
  }
  return number;
}

void check_limit(const char* name, std::optional<double> limit, PlotScale scale) {
  if (!limit) return;
  if (!std::isfinite(*limit)) {
    throw ConfigError(kLinePlot,
                      fmt::format("{} is not finite; expected a number, got {}; leave it out to have "
                                  "it chosen by the grid's numbers",
                                  name, *limit));
  }
  if (scale == PlotScale::logarithmic && *limit < kSmallest) {
    throw ConfigError(kLinePlot, fmt::format("{} does not lie on a logarithmic axis; expected a number above "
                                             "zero, got {}; leave it out or take a linear axis",
                                             name, *limit));
  }
}

}  // namespace

PlotAxis PlotAxis::around(const std::vector<double>& numbers, PlotScale scale, std::optional<double> low,
                          std::optional<double> high, std::size_t ticks) {
  check_limit("low", low, scale);
  check_limit("high", high, scale);
  if (low && high && *low >= *high) {
    throw ConfigError(kLinePlot,
                      fmt::format("the limits are the wrong way round; expected low below high, got "
                                  "low {} and high {}; exchange them",
                                  *low, *high));
  }
  const bool logarithmic = scale == PlotScale::logarithmic;
  double smallest = std::numeric_limits<double>::infinity(), largest = -smallest;
  for (const double number : numbers) {
    if (!std::isfinite(number) || (logarithmic && number < kSmallest)) continue;
    smallest = std::min(smallest, number);
    largest = std::max(largest, number);
  }
  if (smallest > largest) {
    if (logarithmic && !numbers.empty()) {
      throw ConfigError(kLinePlot,
                        "a logarithmic axis has nothing to show; expected a finite number above "
                        "zero, got none; take a linear axis");
    }
    smallest = largest = logarithmic ? 1 : 0;
  }
  if (logarithmic) {
    double from = low.value_or(round_number(smallest, false)),
           to = high.value_or(round_number(largest, true));
    if (!std::isfinite(to)) to = std::numeric_limits<double>::max();
    from = std::max(from, kSmallest);
    // One number, or all of them beyond the given limit.
    if (from >= to && low) to = from * 10;
    if (from >= to) from = to / 10;
    return {scale, from, to};
  }
  double from = low.value_or(std::min(smallest, high ? std::min(0.0, *high) : 0.0));
  double to = high.value_or(std::max(largest, low ? std::max(0.0, *low) : 0.0));
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
