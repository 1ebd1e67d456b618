#pragma once

#include <c10/core/ScalarType.h>

namespace hooked {

/// So far above a metric's minimum, in a model of that dtype, a score may be rounding alone.
inline double rounding_of_least_score(at::ScalarType dtype) {
  return dtype == at::kDouble ? 1e-10 : dtype == at::kFloat ? 1e-5 : 1e-3;
}

}  // namespace hooked
