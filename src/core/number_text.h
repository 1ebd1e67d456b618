#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "core/unsigned_nan.h"

namespace hooked {

/// `text` of a number without the sign of a zero: `-0.00` becomes `0.00`.
inline std::string unsigned_zero(std::string text) {
  const bool zero = text.starts_with('-') && text.find_first_not_of("-0.") == std::string::npos;
  return zero ? text.substr(1) : text;
}

/// A number with that many decimals.
inline std::string fixed_text(double number, int decimals) {
  return unsigned_zero(fmt::format("{:.{}f}", unsigned_nan(number), decimals));
}

/// A probability with that many decimals, or with two digits if it is too small for them: `0.9714`,
/// `3.1e-07`.
inline std::string probability_text(double number, int decimals) {
  const bool small = number > 0 && number < std::pow(10.0, 1 - decimals);
  return small ? fmt::format("{:.1e}", number) : fixed_text(number, decimals);
}

/// A probability in percent, with one decimal or, if it is too small for that, with two digits: `97.1 %`,
/// `3.1e-05 %`.
inline std::string percent_text(double probability) {
  const double percent = 100 * probability;
  const bool small = percent > 0 && percent < 0.1;
  return (small ? fmt::format("{:.2g}", percent) : fixed_text(percent, 1)) + " %";
}

/// How the numbers of one column or table are written: with the same decimals, more than asked for if the
/// largest number needs them for three digits, or as powers of ten if it is very small or very large.
class ColumnFormat {
 public:
  ColumnFormat(double largest, int decimals)
      : is_scientific_(largest >= 1e6 || (largest > 0 && largest < 1e-4)), decimals_(decimals) {
    if (largest > 0) decimals_ = std::max(decimals, 2 - static_cast<int>(std::floor(std::log10(largest))));
  }

  /// For these numbers: without decimals if all are whole.
  static ColumnFormat of(std::span<const double> numbers, int decimals) {
    double largest = 0;
    bool whole = true;
    for (const double number : numbers) {
      if (!std::isfinite(number)) continue;
      largest = std::max(largest, std::abs(number));
      whole = whole && number == std::round(number);
    }
    ColumnFormat format(largest, decimals);
    if (whole && largest < 1e9) {
      format.is_scientific_ = false;
      format.decimals_ = 0;
    }
    return format;
  }

  std::string operator()(double number) const {
    if (!is_scientific_) return fixed_text(number, decimals_);
    return number == 0 || !std::isfinite(number) ? fixed_text(number, 0) : fmt::format("{:.2e}", number);
  }

 private:
  bool is_scientific_;
  int decimals_;
};

}  // namespace hooked
