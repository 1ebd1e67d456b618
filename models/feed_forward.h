#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "models/graph.h"
#include "models/run.h"

namespace hooked {

/// What stands in the MLP's place in a block: an ordinary MLP or a mixture of experts.
class FeedForward : public torch::nn::Module {
 public:
  /// `x` and the result are [batch, pos, d_model].
  virtual at::Tensor forward(const at::Tensor& x, Run& run) const = 0;

  virtual WeightSlots slots(const std::string& path) const = 0;
};

}  // namespace hooked
