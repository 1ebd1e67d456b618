#pragma once

#include <cmath>
#include <limits>

namespace hooked {

/// The number to print: the sign of a NaN means nothing, and would show as `-nan`.
inline double unsigned_nan(double number) {
  return std::isnan(number) ? std::numeric_limits<double>::quiet_NaN() : number;
}

}  // namespace hooked
