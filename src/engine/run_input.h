#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "hooked/engine/input.h"
#include "hooked/engine/run_options.h"
#include "hooks/watch.h"
#include "loading/fill/loaded_model.h"
#include "models/transformer/transformer.h"

namespace hooked {

/// The input with the tokens of its text instead of that, and a decoder's start tokens where none are given;
/// nothing of it goes to a device. Throws ShapeError and TokenizerError.
Input with_ids(const LoadedModel& model, const Input& given);

/// The input as the graph computes from it, on the model's device: tokens [batch, pos] instead of a text,
/// a decoder's start tokens where none are given, masks in bool and undefined where they mask nothing, the
/// layer to start at from 0 on, the residual a copy. Throws ShapeError naming the input, the row and
/// position, and both values; TokenizerError for a text.
Input check_input(const LoadedModel& model, const Input& given);

/// Throws HookError for an output that the model does not have.
void require_output(const ModelConfig& config, const RunOptions& options);

/// The ids [batch, pos] for the loss of a run of a checked input; undefined where no loss is asked for.
/// Throws ShapeError.
at::Tensor check_targets(const LoadedModel& model, const Input& input, const RunOptions& options);

/// All that a run of a checked input can compute.
Reach reach_of(const LoadedModel& model, const Input& input);

/// What the watch of a run of `columns` behind a checked prompt is made for.
RunExtent extent_of(const Input& prompt, const RunColumns& columns);

/// A checked input for the graph, without logit columns.
GraphInput graph_input(const Input& input);

/// What the encoder reads of a checked input, where it runs.
std::optional<Sequence> encoder_sequence(const LoadedModel& model, const Input& input);

/// The rows of a checked input that begin at columns of their own; null where all begin at the same.
std::shared_ptr<const RaggedRows> ragged_rows(const LoadedModel& model, const Input& input);

/// Throws ShapeError at `where` when sequences of `length` tokens are longer than the model allows.
void require_room(const ModelConfig& config, const char* where, std::int64_t length);

/// A layer option resolved against the model: negative counts from the end. Throws ShapeError out of [0,
/// n_layers].
std::int64_t resolve_layer(std::int64_t layer, const ModelConfig& config, const char* option);

}  // namespace hooked
