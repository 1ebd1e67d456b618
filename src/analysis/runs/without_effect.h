#pragma once

#include <vector>

#include "analysis/runs/patched_runs.h"

namespace hooked {

/// Of each patch whether it puts in what `unpatched` holds there already: 1 or 0. Of other devices than the
/// CPU the host waits once for all answers.
std::vector<char> without_effect(const std::vector<Patch>& patches, const ActivationCache& unpatched);

}  // namespace hooked
