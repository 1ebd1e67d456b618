#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "hooks/watch_plan.h"
#include "models/graph/graph.h"
#include "models/graph/head_projection.h"
#include "models/sequence/kv_cache.h"
#include "models/sequence/run.h"
#include "models/sequence/stack_inputs.h"

namespace hooked {

/// What moves information between the tokens of a block: attention, or its replacement.
class TokenMixer : public torch::nn::Module {
 public:
  /// What it writes, before any output norm: [batch, pos, d_model] of the requested columns.
  virtual at::Tensor forward(const AttentionInput& input, const StackInputs& stack, Run& run) const = 0;

  /// The form in which columns of earlier runs are remembered, if all runs that read them are watched so.
  virtual KeyForm key_form(const WatchPlan& plan) const = 0;
  /// Remembered columns in another form than they have.
  virtual KeysAndValues in_form(const KeysAndValues& columns, KeyForm form, Memory memory) const = 0;

  /// Its weights; `path` is its path in the state dict (`blocks.0.attn`).
  virtual WeightSlots slots(const std::string& path) const = 0;
};

}  // namespace hooked
