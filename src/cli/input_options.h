#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
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
  Json around;                     ///< around_json() of these texts; null where it was given as ids
};

/// What a value of --prepend-bos means; it is empty where the option is not given.
PrependBos prepend_bos_of(std::string_view choice);

/// The tokens that stand around texts, and why: `before` and `after`, each [{id, token}], and `why`.
Json around_json(const Tokenizer& tokenizer, const TokensAround& around);
/// The same of the tokens that `model` puts there.
Json around_json(const HookedTransformer& model, PrependBos choice);

/// Writes to stderr that texts get a BOS token that no file asks for, where they do.
void note_around(const HookedTransformer& model, PrependBos choice);

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
/// The same with `around`, the tokens around texts; null where the input was ids.
void add_tokens(const GivenInput& given, Json& json);

}  // namespace hooked::cli
