#pragma once

#include "hooked/loading/load_options.h"
#include "loading/fill/loaded_model.h"

namespace hooked {

/// Fresh weights for every slot: matrices by the init mode, norm weights 1 (offset norms 0), biases 0.
/// The same seed gives the same weights on every device.
void initialise(LoadedModel& model, const CreateOptions& options);

}  // namespace hooked
