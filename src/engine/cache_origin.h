#pragma once

#include <ATen/core/Tensor.h>

#include "hooked/engine/input.h"
#include "hooked/hooks/activation_cache.h"
#include "hooks/watch_plan.h"
#include "loading/fill/loaded_model.h"

namespace hooked {

/// Says in a cache that this model made it, and of which ids [batch, pos] (undefined: not known), of which
/// those of the cache's columns are kept.
void set_origin(ActivationCache& cache, const LoadedModel& model, const at::Tensor& ids);

/// An input as the caller gave it, and the same checked.
struct RunInput {
  const Input& given;
  const Input& checked;
};

/// The same for what a run left. Ids that the caller may write into are copied; those that something in the
/// plan may change are not known. Of a cache that is kept on the host ids and masks lie there, too, if they
/// were given there.
void set_origin(ActivationCache& cache, const LoadedModel& model, const RunInput& input,
                const WatchPlan& plan);

}  // namespace hooked
