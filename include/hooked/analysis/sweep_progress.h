#pragma once

#include <cstdint>
#include <optional>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// How far a sweep or another long analysis has come.
struct SweepProgress {
  std::int64_t done;   ///< cells that are done, including those of a resumed file; elsewhere steps
  std::int64_t total;  ///< cells of all rows, or all steps
  double seconds;      ///< since the work began
  std::optional<double> seconds_left;  ///< at the rate so far; nothing before the first step
};

}  // namespace hooked
