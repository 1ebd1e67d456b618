#pragma once

#include <vector>

#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/loading/device_names.h"

namespace HOOKED_EXPORT hooked {

/// The same model on each of these devices, in order, for work that they share (SweepOptions::replicas).
/// On its own device it is the model itself; its weights are copied to the others. The handles have no
/// hooks.
///
///     const auto replicas = hooked::replicate(model, "cuda:0,cuda:1");
///
/// Throws ConfigError and IoError for devices as loading does, MemoryError if one has too little memory.
std::vector<HookedTransformer> replicate(const HookedTransformer& model, const DeviceNames& devices);

}  // namespace hooked
