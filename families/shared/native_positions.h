#pragma once

#include "families/shared/native_source.h"
#include "hooked/core/model_config.h"

namespace hooked {

/// Reads which positions a model has, with the scaling of rotary ones. Uses sizes, heads and windows of
/// `config`.
void read_native_positions(const NativeSource& in, ModelConfig& config);

}  // namespace hooked
