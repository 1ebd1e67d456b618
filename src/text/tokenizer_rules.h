#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "hooked/text/tokenizer.h"
#include "text/added_tokens.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary.h"

namespace hooked {

/// What a tokenizer.json and a tokenizer_config.json say.
struct Tokenizer::Rules {
  Vocabulary vocabulary;
  AddedTokens added;
  PreTokenizerKind pre_tokenizer = PreTokenizerKind::none;
  std::optional<std::int64_t> unknown;  ///< the id of words that are not in the vocabulary
  /// Tokens that the post-processor puts before and after a text.
  std::vector<std::int64_t> prefix;
  std::vector<std::int64_t> suffix;
  std::optional<std::int64_t> bos;
  std::optional<std::int64_t> eos;
};

/// Reads and checks tokenizer.json. Throws TokenizerError, IoError.
Tokenizer::Rules read_tokenizer_file(const std::filesystem::path& file);

/// Adds what the folder's tokenizer_config.json says, where there is one. Throws TokenizerError, IoError.
void read_tokenizer_config(const std::filesystem::path& folder, Tokenizer::Rules& rules);

}  // namespace hooked
