#pragma once

#include <ATen/core/Tensor.h>

#include "core/json.h"
#include "hooked/engine/hooked_transformer.h"
#include "options/command_options.h"

namespace hooked::cli {

/// Reads the input, with a decoder's start tokens where none are given, on the model's device. Throws
/// ShapeError for rows of unequal length, TokenizerError for text without a tokenizer, CheckpointError and
/// IoError for the file.
Input read_input(const InputOptions& options, const HookedTransformer& model);

/// Rows of ids [batch, pos].
Json rows_json(const at::Tensor& tokens);

/// Adds `tokens`, and `decoder_tokens` where there are.
void add_tokens(const Input& input, Json& json);

}  // namespace hooked::cli
