#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "engine/loaded_model.h"
#include "hooked/engine/run_options.h"
#include "models/run.h"

namespace hooked {

/// What an encoder reads.
struct SourceInput {
  at::Tensor tokens;          ///< [batch, pos] int64 on the model's device
  at::Tensor attention_mask;  ///< [batch, pos] bool on the model's device, or undefined
};

/// What a run computes from, checked at the door. All but `source` is of the main stack.
struct RunInput {
  std::optional<SourceInput> source = {};  ///< of encoder-decoders
  at::Tensor tokens;  ///< [batch, pos] int64 on the model's device; undefined when the run starts at a layer
  at::Tensor residual;        ///< [batch, pos, d_model] for runs that start at a layer
  at::Tensor attention_mask;  ///< [batch, pos] bool on the model's device, or undefined
  at::Tensor token_types;     ///< [batch, pos] int64 on the model's device, or undefined
  at::Tensor targets;         ///< [batch, pos] ids for the loss, or undefined

  std::int64_t batch() const { return (tokens.defined() ? tokens : residual).size(0); }
  std::int64_t length() const { return (tokens.defined() ? tokens : residual).size(1); }

  /// Tokens per row that an encoder reads.
  std::optional<std::int64_t> source_length() const {
    return source ? std::optional(source->tokens.size(1)) : std::nullopt;
  }
  /// What a run's decoder attends to, if there is an encoder; `memory` as there.
  std::optional<Run::Source> source_of_run(std::vector<KeysAndValues>* memory = nullptr) const;
};

/// Throws ShapeError naming the input, the row and position, and both values, before anything runs; HookError
/// for an output that the model does not have.
RunInput check_input(const LoadedModel& model, const at::Tensor& input, const RunOptions& options);

/// How many columns stand before a run's own.
std::int64_t columns_before(const std::optional<Prefix>& prefix);

/// Throws ShapeError at `where` when sequences of `length` tokens are longer than the model allows.
void require_room(const ModelConfig& config, const char* where, std::int64_t length);

/// Throws ShapeError when the keys of a prefix would have to turn again in a sequence of `length` tokens.
void require_lasting_keys(const ModelConfig& config, std::int64_t length);

/// A layer option resolved against the model: negative counts from the end. Throws ShapeError out of [0,
/// n_layers].
std::int64_t resolve_layer(std::int64_t layer, const LoadedModel& model, const char* option);

}  // namespace hooked
