#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace hooked {

/// How the numbers of a heat map are written in its cells: as multiples of one power of ten, with the same
/// number of decimals and in the same size.
struct NumberFormat {
  int exponent = 0;  ///< cells show the number divided by ten to this power
  int decimals = 2;
  double font = 11;  ///< pixels

  /// The format in which all `numbers` (finite) fit cells of `cell` pixels, with at least one decimal less
  /// than the largest of them deserves; nothing if there is none.
  static std::optional<NumberFormat> that_fits(std::span<const double> numbers, std::int64_t cell);

  std::string operator()(double number) const;

  /// The number as written if it fits a cell, with fewer digits if necessary; empty if it does not fit. NaN
  /// and infinities have their own words.
  std::string if_it_fits(double number, std::int64_t cell) const;
};

}  // namespace hooked
