#pragma once

#include "hooked/engine/hooked_transformer.h"
#include "hooked/loading/load_options.h"
#include "options/command_options.h"

namespace hooked::cli {

/// How the model is loaded.
LoadOptions load_options(const ModelOptions& options);

/// Loads the model; sets the number of threads first.
HookedTransformer load_model(const ModelOptions& options);

}  // namespace hooked::cli
