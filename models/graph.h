#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/core/model_config.h"
#include "hooked/hooks/point_index.h"
#include "hooks/hook_point.h"
#include "hooks/nn.h"

namespace hooked {

/// What a module is built from.
struct GraphContext {
  const ModelConfig& config;
  const PointIndex& points;
  at::TensorOptions options;  ///< dtype and device of the weights
  Stack stack = Stack::none;
  std::int64_t layer = -1;
};

using Point = std::shared_ptr<HookPoint>;

/// Registers the HookPoint of `site` in `owner` under the last part of its path; null when this config does
/// not have the site.
Point add_point(torch::nn::Module& owner, Site site, const GraphContext& context);

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
