#pragma once

#include "families/shared/hf_config.h"

namespace hooked {

/// The windows of Qwen 2 and 3: none unless `use_sliding_window`; then those of `layer_types`, or of the
/// layers from `max_window_layers` on (`first` if the key is absent).
void read_qwen_windows(HfConfig& hf, ModelConfig& config, std::int64_t first = 28);

/// Throws ConfigError if `layer_types` names a windowed layer although `use_sliding_window` is false.
void refuse_windows_without_use(HfConfig& hf, const LayerFlags& windowed);

}  // namespace hooked
