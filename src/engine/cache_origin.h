#pragma once

#include <ATen/core/Tensor.h>

#include "hooked/engine/input.h"
#include "hooked/hooks/activation_cache.h"
#include "hooks/watch_plan.h"
#include "loading/fill/loaded_model.h"

namespace hooked {

/// Records in a cache that this model made it, which tokens of the prompt's prefix are real, and the ids
/// [batch, pos] it read. Of these, only the ids of the cache's columns are kept.
void set_origin(ActivationCache& cache, const LoadedModel& model, const Input& prompt, const at::Tensor& ids);

/// An input as the caller gave it, and the same input after the checks.
struct RunInput {
  const Input& given;
  const Input& checked;
};

/// The same for a finished run. Ids that the caller may write into are copied; ids that something in the plan
/// may change are recorded as unknown. If a cache is kept on the host, its ids and masks are there too,
/// provided they were given there.
void set_origin(ActivationCache& cache, const LoadedModel& model, const RunInput& input,
                const WatchPlan& plan);

}  // namespace hooked
