#pragma once

#include <c10/core/ScalarType.h>

namespace hooked {

/// A score that is at most this much above a metric's minimum may be only rounding, in a model of that dtype.
inline double rounding_of_least_score(at::ScalarType dtype) {
  return dtype == at::kDouble ? 1e-10 : dtype == at::kFloat ? 1e-5 : 1e-3;
}

}  // namespace hooked
