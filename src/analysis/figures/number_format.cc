#include "analysis/figures/number_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/figures/picture_text.h"

namespace hooked {
namespace {

bool fits_cell(const std::string& words, double font, std::int64_t cell) {
  const auto side = static_cast<double>(cell);
  return text_width(words, font) <= side - 6 && 1.4 * font <= side;
}

}  // namespace

std::optional<NumberFormat> NumberFormat::that_fits(std::span<const double> numbers, std::int64_t cell) {
  double largest = 0;
  bool whole = true;
  for (const double number : numbers) {
    largest = std::max(largest, std::abs(number));
    whole = whole && number == std::round(number);
  }
  NumberFormat format;
  if (largest != 0 && (largest < 0.1 || largest >= 1e4))
    format.exponent = static_cast<int>(std::floor(std::log10(largest)));
  const double most = largest / std::pow(10.0, format.exponent);
  const int best = most >= 100 || (whole && format.exponent == 0) ? 0 : most >= 10 ? 1 : 2;
  for (format.decimals = best; format.decimals >= std::min(best, 1); --format.decimals) {
    for (format.font = 11; format.font >= 9; --format.font) {
      if (std::all_of(numbers.begin(), numbers.end(),
                      [&](double number) { return fits_cell(format(number), format.font, cell); }))
        return format;
    }
  }
  return std::nullopt;
}

std::string NumberFormat::operator()(double number) const {
  if (number == 0 || !std::isfinite(number)) return readable_number(number);
  auto text = fmt::format("{:.{}f}", number / std::pow(10.0, exponent), decimals);
  return text.front() == '-' && text.find_first_not_of("-0.") == std::string::npos ? text.substr(1) : text;
}

std::string NumberFormat::if_it_fits(double number, std::int64_t cell) const {
  if (auto words = (*this)(number); fits_cell(words, font, cell)) return words;
  if (auto words = readable_number(number, 2); exponent == 0 && fits_cell(words, font, cell)) return words;
  return "";
}

}  // namespace hooked
