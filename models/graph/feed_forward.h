#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "models/graph/graph.h"
#include "models/sequence/run.h"

namespace hooked {

/// What stands in the MLP's place reads, [batch, pos, d_model].
struct FeedForwardInput {
  at::Tensor stream;  ///< as hook_mlp_in shows it
  at::Tensor normed;  ///< the same as the block's norm makes it; the stream itself without one
};

/// What stands in the MLP's place in a block: an ordinary MLP or a mixture of experts.
class FeedForward : public torch::nn::Module {
 public:
  /// What it adds to the stream, [batch, pos, d_model].
  virtual at::Tensor forward(const FeedForwardInput& input, Run& run) const = 0;

  virtual WeightSlots slots(const std::string& path) const = 0;
};

}  // namespace hooked
