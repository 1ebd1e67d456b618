#pragma once

#include <c10/core/Device.h>

#include <vector>

#include "hooked/core/model_config.h"
#include "hooked/core/placement.h"

namespace hooked {

/// Spreads a model's layers over devices in consecutive stretches, so that each device holds about the same
/// number of bytes of weights. Throws ConfigError for more devices than layers.
Placement place_layers(const ModelConfig& config, const std::vector<c10::Device>& devices);

}  // namespace hooked
