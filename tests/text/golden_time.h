#pragma once

#include <ctime>

namespace hooked::text {

/// 9 March 2025, 14:05:07 in the local time zone, as used by the makers of the templates' goldens.
inline std::time_t golden_time() {
  std::tm parts{};
  parts.tm_year = 125;
  parts.tm_mon = 2;
  parts.tm_mday = 9;
  parts.tm_hour = 14;
  parts.tm_min = 5;
  parts.tm_sec = 7;
  parts.tm_isdst = -1;
  return std::mktime(&parts);
}

}  // namespace hooked::text
