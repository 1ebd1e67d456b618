#pragma once

#include <string_view>

#include "text/files/side_files.h"
#include "text/tokenizer/tokenizer_rules.h"

namespace hooked::text {

/// Mistral's tekken.json: ranked byte strings, special tokens before them, and the pattern of words. Throws
/// TokenizerError.
Tokenizer::Rules read_tekken(std::string_view json, std::string_view name);

/// A file of the package tiktoken: on each line a byte string in base64 and its rank. The pattern of words
/// and the special tokens are those of a family, given by the class in `beside` or, if that says nothing, by
/// the file's name. Throws TokenizerError.
Tokenizer::Rules read_tiktoken(std::string_view lines, std::string_view name, const SideFiles& beside);

/// Whether a file begins like a tiktoken file.
bool looks_like_tiktoken(std::string_view bytes) noexcept;

}  // namespace hooked::text
