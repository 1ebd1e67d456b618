#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace hooked {

/// Where one tensor of the state dict lives in the packed parameters.
///
/// The single table that loading, saving, checking shapes and reading weights go by: `view` has the state
/// dict's shape and shares the packed parameter's memory.
struct WeightSlot {
  std::string name;  ///< state-dict name: `blocks.0.attn.W_Q`
  at::Tensor view;
  bool optional = false;  ///< absent in a state dict means zeros
};

using WeightSlots = std::vector<WeightSlot>;

}  // namespace hooked
