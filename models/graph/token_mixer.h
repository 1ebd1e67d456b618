#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "hooks/watch_plan.h"
#include "models/graph/graph.h"
#include "models/sequence/kv_cache.h"
#include "models/sequence/run.h"
#include "models/sequence/stack_inputs.h"
#include "models/storage/weight_slot.h"

namespace hooked {

/// The input of attention.
struct AttentionInput {
  at::Tensor shared;  ///< [batch, pos, d_model], for every branch that has no input of its own
  /// Position embeddings [1 or batch, pos, d_model] that queries and keys also read; undefined: none.
  at::Tensor query_key_positions = {};
  /// Cross-attention: what keys and values read instead, [batch, pos of the encoder, d_model]; undefined if
  /// an earlier run computed them, so that only queries are wanted.
  std::optional<at::Tensor> encoder_output = std::nullopt;
  /// Inputs of single branches after their norm, one per head: set if a split input was changed.
  std::optional<at::Tensor> query = std::nullopt;  ///< [batch, pos, head, d_model]
  std::optional<at::Tensor> key = std::nullopt;    ///< [batch, pos, kv_head, d_model]
  std::optional<at::Tensor> value = std::nullopt;  ///< [batch, pos, kv_head, d_model]
};

/// What moves information between the tokens of a block: attention, or its replacement.
class TokenMixer : public torch::nn::Module {
 public:
  /// What it writes, before any output norm: [batch, pos, d_model] of the requested columns.
  virtual at::Tensor forward(const AttentionInput& input, const StackInputs& stack, Run& run) const = 0;

  /// The form in which columns of earlier runs are remembered, if all runs that read them are watched so.
  virtual KeyForm key_form(const WatchPlan& plan) const = 0;
  /// Remembered columns in another form than they have. Only attention has several.
  virtual KeysAndValues in_form(const KeysAndValues& columns, KeyForm /*form*/, Memory /*memory*/) const {
    return columns;
  }

  /// Its weights; `path` is its path in the state dict (`blocks.0.attn`).
  virtual WeightSlots slots(const std::string& path) const = 0;
};

}  // namespace hooked
