#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/files/side_files.h"

namespace hooked::text {

/// The class that `AutoTokenizer` chooses for the text of a tokenizer.json and the files next to it, without
/// `Fast`; empty if the tokenizer.json is used as it is.
std::string json_class(std::string_view tokenizer_json, const SideFiles& beside);

/// A class that does not build a pipeline.
inline constexpr std::string_view kAnyClass = "TokenizersBackend";

/// The class that `AutoTokenizer` chooses for a SentencePiece file, known here or not; kAnyClass for classes
/// that do not build a pipeline; empty if the files name neither a class nor a model.
std::string sentencepiece_class(const SideFiles& beside);

/// The special tokens of a class if no file names others.
std::span<const DefaultToken> default_tokens(std::string_view tokenizer_class);

/// The classes that cut texts into words and have this model type of a tokenizer.json, for messages.
std::string word_classes(std::string_view model);
bool is_word_class(std::string_view name, std::string_view model);

/// What a user should know about the use of a tokenizer.json.
struct ClassNotes {
  std::vector<std::string> file;  ///< differences from the file
  std::vector<std::string> ids;   ///< added tokens for which a file states another id
};

/// How a tokenizer.json is used.
struct ClassUse {
  std::string_view name{};                               ///< the class; empty if the file is used as it is
  std::span<const DefaultToken> defaults{};              ///< special tokens if the class has none
  std::optional<std::vector<Json>> vocabulary_extras{};  ///< see ClassTokens
};

/// Changes `document`, a tokenizer.json, to what that class builds from it and the files `beside` it
/// (decision 93): its pipeline, with the options of tokenizer_config.json, and the tokens of all files.
/// Throws TokenizerError.
ClassNotes apply_class(const ClassUse& use, Json& document, const SideFiles& beside);

}  // namespace hooked::text
