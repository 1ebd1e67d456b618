#pragma once

#include "families/shared/hf_config.h"

namespace hooked {

/// The windows of EXAONE 4 and its successors: every fourth layer has none (or those that `layer_types` or
/// `sliding_window_pattern` name), and has no positions. Without windows, all layers have rotary.
void read_exaone_windows(HfConfig& hf, ModelConfig& config);

}  // namespace hooked
