#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "models/graph/graph.h"
#include "models/graph/norm.h"
#include "models/sequence/run.h"
#include "models/sequence/stack_inputs.h"

namespace hooked {

/// Per-layer embeddings: what a block reads of each token in addition to the stream, and what it adds to the
/// stream for it (LayerInput in core/model_parts.h has the formula).
///
/// transformers packs the tables and maps of all layers into one matrix each. Here each block has its own, so
/// that they are on the block's device and one layer's are read without the others'.
class LayerInputBranch : public torch::nn::Module {
 public:
  explicit LayerInputBranch(const GraphContext& context);

  /// What it adds to `stream`: both [batch, pos, d_model], of the requested columns.
  at::Tensor forward(const at::Tensor& stream, const StackInputs& stack, Run& run) const;

  WeightSlots slots(const std::string& path) const;

 private:
  /// The block's own input [batch, pos, width] of the requested columns.
  at::Tensor read(const StackInputs& stack, Run& run) const;

  Activation activation_;
  double embedding_scale_;  // of the mapped embedding; the norm cancels it except for its eps
  at::Tensor row_scale_;    // of rows of W_token, a number in the weights' dtype
  at::Tensor W_token_;      // [vocab, width]
  Matrix W_embed_;          // [width, d_model]
  Matrix W_gate_;           // [width, d_model]
  Matrix W_out_;            // [d_model, width]
  std::shared_ptr<Norm> ln_, ln_post_;
  Point hook_in_, hook_pre_, hook_post_;
};

}  // namespace hooked
