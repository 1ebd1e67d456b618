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

/// The input with its text replaced by tokens, and with a decoder's start tokens if none are given; nothing
/// of it goes to a device. Throws ShapeError and TokenizerError.
Input with_ids(const LoadedModel& model, const Input& given);

/// The input as the graph computes from it, on the model's device: tokens [batch, pos] instead of a text, a
/// decoder's start tokens if none are given, bool masks that are undefined if they mask nothing, a start
/// layer that is not negative, a copy of the residual. Throws ShapeError naming the input, the row and
/// position, and both values; TokenizerError for a text.
Input check_input(const LoadedModel& model, const Input& given);

/// Throws HookError for an output that the model does not have.
void require_output(const ModelConfig& config, const RunOptions& options);

/// The ids [batch, pos] for the loss of a run of a checked input; undefined if no loss is asked for. Throws
/// ShapeError.
at::Tensor check_targets(const LoadedModel& model, const Input& input, const RunOptions& options);

/// Everything that a run of a checked input can compute.
Reach reach_of(const LoadedModel& model, const Input& input);

/// Which columns of a checked prompt's prefix are real tokens, [batch, column] bool; undefined: all are, or
/// there is none.
at::Tensor prefix_mask(const Input& prompt);

/// The extent to make a run's watch for, if it computes `columns` after a checked prompt.
RunExtent extent_of(const Input& prompt, const RunColumns& columns);

/// A checked input for the graph, without logit columns.
GraphInput graph_input(const Input& input);

/// The encoder's part of a checked input, if the encoder runs.
std::optional<Sequence> encoder_sequence(const LoadedModel& model, const Input& input);

/// The rows of a checked input if they have different first columns; null if all begin at the same.
std::shared_ptr<const RaggedRows> ragged_rows(const LoadedModel& model, const Input& input);

/// Throws ShapeError at `where` if sequences of `length` tokens are longer than the model allows.
void require_room(const ModelConfig& config, const char* where, std::int64_t length);

/// A layer option resolved against the model: negative ones count from the end. Throws ShapeError outside [0,
/// n_layers].
std::int64_t resolve_layer(std::int64_t layer, const ModelConfig& config, const char* option);

}  // namespace hooked
