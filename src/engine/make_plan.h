#pragma once

#include <memory>
#include <vector>

#include "hooked/engine/run_options.h"
#include "hooks/watch_plan.h"
#include "loading/fill/loaded_model.h"

namespace hooked {

/// Everything that `options` and the handle's `scoped` hooks watch in runs of that part of the model. Throws
/// HookError for points that this model or this part does not have.
std::shared_ptr<const WatchPlan> make_plan(const LoadedModel& model, const Reach& reach,
                                           const std::vector<Hook>& scoped, const RunOptions& options);

}  // namespace hooked
