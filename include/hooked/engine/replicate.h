#pragma once

#include <vector>

#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/loading/device_names.h"

namespace HOOKED_EXPORT hooked {

/// The same model on each of these devices, in their order, for work that they share
/// (SweepOptions::replicas). Where it lies already it is the model itself; elsewhere its weights are copied.
/// The handles have no hooks.
///
///     const auto replicas = hooked::replicate(model, "cuda:0,cuda:1");
///
/// Throws ConfigError and IoError for devices as loading does, MemoryError where one has no room.
std::vector<HookedTransformer> replicate(const HookedTransformer& model, const DeviceNames& devices);

}  // namespace hooked
