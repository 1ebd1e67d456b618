#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string_view>

#include "hooked/core/model_config.h"
#include "hooked/core/model_identity.h"
#include "hooked/hooks/activation_cache.h"
#include "hooked/hooks/edit.h"

namespace hooked {

/// A model that uses values of a cache or an edit.
struct ReadingModel {
  std::shared_ptr<const ModelIdentity> identity;
  const ModelConfig& config;
};

/// Throws HookError if these sizes do not fit the activation in a model of that config; sizes that depend on
/// the run are not compared.
void require_shape_in(const ModelConfig& config, const ActivationName& name, at::IntArrayRef sizes);

/// Throws HookError about `where` for a cache of another model. If it is unknown which model made the cache,
/// throws for activations that have another shape in this one.
void require_own(const ReadingModel& model, const ActivationCache& cache, std::string_view where);

/// The same for the activation that the value of an edit of `name` was taken from.
void require_own(const ReadingModel& model, const EditSource& source, const ActivationName& name);

}  // namespace hooked
