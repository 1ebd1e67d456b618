#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/json.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/io/provenance.h"
#include "options/command_options.h"

namespace hooked::cli {

/// What a command reads.
struct GivenInput {
  Input input;
  std::vector<std::string> texts;  ///< that it was made of; none where it was given as ids
};

/// The prompts for answers that a chat template makes of texts that a user says; the texts themselves without
/// --chat. Throws TokenizerError.
std::vector<std::string> chat_texts(std::vector<std::string> texts, const ChatTextOptions& options,
                                    const Tokenizer& tokenizer);

/// Reads the input, with a decoder's start tokens where none are given, on the model's device. Throws
/// ShapeError for rows of unequal length, TokenizerError for text without a tokenizer, CheckpointError and
/// IoError for the file.
GivenInput read_input(const InputOptions& options, const HookedTransformer& model);

/// What a file of activations of that input says about where it comes from; edits are for the caller to add.
Provenance provenance_of(const HookedTransformer& model, const GivenInput& given);

/// Rows of ids [batch, pos].
Json rows_json(const at::Tensor& tokens);

/// Adds `tokens`, and `decoder_tokens` where there are.
void add_tokens(const Input& input, Json& json);

}  // namespace hooked::cli
