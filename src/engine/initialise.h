#pragma once

#include "engine/loaded_model.h"
#include "hooked/engine/load_options.h"

namespace hooked {

/// Fresh weights for every slot: matrices by the init mode, norm weights 1 (offset norms 0), biases 0.
/// The same seed gives the same weights on every device.
void initialise(LoadedModel& model, const CreateOptions& options);

/// The config that a created model has: the options' dtype, validated.
ModelConfig config_to_create(ModelConfig config, const CreateOptions& options);

}  // namespace hooked
