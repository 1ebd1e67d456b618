#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/side_files.h"

namespace hooked::text {

/// The class that `AutoTokenizer` chooses, without `Fast`; empty for one that uses a tokenizer.json as it is.
std::string class_of(const ClassHints& hints);

/// The same for the text of a tokenizer.json and the files beside it.
std::string json_class(std::string_view tokenizer_json, const SideFiles& beside);

/// The special tokens that a class has where no file names others.
std::span<const DefaultToken> default_tokens(std::string_view tokenizer_class);

/// The classes that cut texts into words and have this model of a tokenizer.json, for messages.
std::string word_classes(std::string_view model);
bool is_word_class(std::string_view name, std::string_view model);

/// Changes `document`, a tokenizer.json, to what that class makes of it with the files `beside` it (decision
/// 93): its pipeline, with the options of tokenizer_config.json, and the tokens of all files. Returns what a
/// user should know. Throws TokenizerError.
std::vector<std::string> apply_class(std::string_view name, Json& document, const SideFiles& beside);

}  // namespace hooked::text
