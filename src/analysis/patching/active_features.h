#pragma once

#include <cstdint>
#include <vector>

#include "analysis/runs/sweep_input.h"
#include "hooked/analysis/sweep.h"

namespace hooked {

/// The features that are not 0 somewhere at these points of dictionaries: in the rows that are swept, as the
/// standing hooks and edits leave them, or in what is put in. In order.
std::vector<std::int64_t> active_features(const HookedTransformer& model,
                                          const std::vector<ActivationName>& points,
                                          const SweepOptions& options, const SweepInput& into);

}  // namespace hooked
