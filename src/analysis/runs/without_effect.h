#pragma once

#include <vector>

#include "analysis/runs/patched_runs.h"

namespace hooked {

/// For each patch 1 if it equals the value in `unpatched`, else 0. On other devices than the CPU the host
/// synchronises once, not per patch.
std::vector<char> without_effect(const std::vector<Patch>& patches, const ActivationCache& unpatched);

}  // namespace hooked
