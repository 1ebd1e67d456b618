#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "models/graph/graph.h"
#include "models/sequence/run.h"

namespace hooked {

/// The input of a block's MLP, [batch, pos, d_model] each.
struct FeedForwardInput {
  at::Tensor stream;  ///< as hook_mlp_in shows it
  at::Tensor normed;  ///< the same after the block's norm; the stream itself without one
};

/// The MLP of a block: an ordinary one or a mixture of experts.
class FeedForward : public torch::nn::Module {
 public:
  /// What it adds to the stream, [batch, pos, d_model].
  virtual at::Tensor forward(const FeedForwardInput& input, Run& run) const = 0;

  virtual WeightSlots slots(const std::string& path) const = 0;
};

}  // namespace hooked
