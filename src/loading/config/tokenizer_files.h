#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "families/family.h"
#include "hooked/core/error.h"
#include "hooked/text/tokenizer.h"
#include "loading/config/generation_config.h"

namespace hooked {

/// The tokenizer beside a model.
struct TokenizerFiles {
  std::optional<Tokenizer> tokenizer;
  std::optional<TokenizerError> problem;     ///< why the tokenizer that is there cannot be used
  std::map<std::string, std::string> files;  ///< name and content of what the tokenizer was read from
  std::vector<std::string> notes;
};

/// Reads it. A model is useful without its tokenizer, so one that cannot be read is a note and not an error,
/// and so are more pieces than the model's `d_vocab`, and a BOS token that no file asks for.
TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder, const ModelConfig& config);

/// The tokenizer that a file is. Throws TokenizerError, which for a file of another name says what else a
/// tokenizer may be taken from.
Tokenizer tokenizer_in_file(const std::filesystem::path& file);

/// The same where `read` finds the tokenizer and its files; it may throw TokenizerError.
TokenizerFiles tokenizer_by(const std::function<void(TokenizerFiles&)>& read, const ModelConfig& config);

/// The tokens that stand around a text unless something else is asked for (decision 88), and why.
TokensAround tokens_around(const Tokenizer& tokenizer, const ModelConfig& config);

/// A sentence about a BOS token that no file asks for, where texts get one.
std::optional<std::string> bos_note(const Tokenizer& tokenizer, const ModelConfig& config);

/// The tokens that end a generation, from the first that names some: generation_config.json, config.json, its
/// group that was read, the tokenizer.
std::vector<std::int64_t> stop_tokens_of(const GenerationConfig& generation, const ConfigText& config,
                                         const TokenizerFiles& text);

}  // namespace hooked
