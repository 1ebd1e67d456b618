#pragma once

#include <vector>

#include "hooked/engine/run_options.h"
#include "hooks/watch.h"
#include "loading/loaded_model.h"

namespace hooked {

/// Everything that `options` and the handle's `scoped` hooks watch in a run. Throws HookError for what this
/// model or this run does not have.
Watch make_watch(const LoadedModel& model, const RunExtent& extent, const std::vector<Hook>& scoped,
                 const RunOptions& options);

/// Whether anything behind the last block is watched.
bool watches_exit(const Watch& watch);

}  // namespace hooked
