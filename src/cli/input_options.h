#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "hooked/analysis/position.h"
#include "hooked/dictionaries/dictionary.h"
#include "hooked/engine/dictionary_place.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/edit.h"
#include "hooked/io/provenance.h"
#include "hooked/loading/load_options.h"
#include "options/command_options.h"

namespace hooked::cli {

/// How the model is loaded.
LoadOptions load_options(const ModelOptions& options);

/// A --dictionary: one, or one for each of several layers.
struct GivenDictionary {
  std::vector<Dictionary> members;
  DictionaryPlace place;
};

/// All of them. Throws UsageError for a set of several layers with an activation after it, and the errors of
/// the files.
std::vector<GivenDictionary> read_dictionaries(const ModelOptions& options);

/// Loads the model without them, and unless the command line says how it is processed, without the steps that
/// would change what they were fitted to; sets the number of threads first.
HookedTransformer load_model_for(const std::vector<GivenDictionary>& dictionaries,
                                 const ModelOptions& options);

/// Loads the model with the dictionaries in place.
HookedTransformer load_model(const ModelOptions& options);
/// The same with dictionaries that are read already.
HookedTransformer load_model(const std::vector<GivenDictionary>& dictionaries, const ModelOptions& options);

/// The input of a command.
struct GivenInput {
  Input input;
  std::vector<std::string> texts;  ///< that it was encoded from; none if it was given as ids
  Json around;                     ///< around_json() of these texts; null if it was given as ids
};

/// The meaning of a value of --prepend-bos; empty if the option is not given.
PrependBos prepend_bos_of(std::string_view choice);

/// The text of an option; `-` is all of standard input, without the newline at its end. Throws TokenizerError
/// if that is not UTF-8.
std::string text_or_standard_input(const std::string& text);

/// The prompts that a chat template makes from the user's texts; without --chat, the texts themselves. Throws
/// TokenizerError.
std::vector<std::string> chat_texts(std::vector<std::string> texts, const ChatTextOptions& options,
                                    const Tokenizer& tokenizer);

/// Reads the input, with a decoder's start tokens if none are given, on the model's device. Throws ShapeError
/// for rows of unequal length, TokenizerError for text without a tokenizer, CheckpointError and IoError for
/// the file.
GivenInput read_input(const InputOptions& options, const HookedTransformer& model);

/// The edits that `ADDRESS OP VALUE` texts describe, in their order. Throws UsageError for malformed texts,
/// HookError for addresses that the model does not have and for files of a model other than this one or
/// `from_model`, and the errors of safetensors files.
Edits read_edits(const EditOptions& options, const HookedTransformer& model, const Input& input);

/// The ids of chosen tokens: those given as ids, then those of the texts. Throws TokenizerError for a text
/// that is not one token.
std::vector<std::int64_t> ids_of_choice(const TokenChoice& choice, const HookedTransformer& model);

/// Throws ShapeError for an --answer-token that is not among `logits` [vocab].
void require_among(std::int64_t token, const at::Tensor& logits);

/// The positions that --positions names: columns of the main tokens, and each row's last one; without any
/// that. Throws HookError for a range that leaves the tokens.
std::vector<Position> read_positions(const PlaceList& positions, const Input& input);

/// Their columns in a row of main tokens; `all` are those that are not padding. Throws ShapeError for one
/// outside the tokens, or padding.
std::vector<std::int64_t> columns_in_row(const PlaceList& positions, const Input& input, std::int64_t row);

/// The places that an option names on an axis of that size, numbers as they are given. Throws HookError with
/// the option's name for a range that leaves the axis.
std::vector<Position> places_on(const PlaceList& places, Axis axis, std::int64_t size,
                                std::string_view option);

/// The provenance of a file of activations of that input; the caller adds edits.
Provenance provenance_of(const HookedTransformer& model, const GivenInput& given);

}  // namespace hooked::cli
