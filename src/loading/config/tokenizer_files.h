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

/// The tokenizer that belongs to a model.
struct TokenizerFiles {
  std::optional<Tokenizer> tokenizer;
  std::optional<TokenizerError> problem;     ///< why the existing tokenizer cannot be used
  std::map<std::string, std::string> files;  ///< name and content of the files the tokenizer was read from
  std::vector<std::string> notes;
  std::string form = {};  ///< what it was read from, if that is not what Tokenizer::form() says

  /// Why none can be used; empty if one can.
  std::string why_no_tokenizer() const;
};

/// Reads it. A model is useful without its tokenizer, so an unreadable tokenizer is a note and not an error.
/// More pieces than the model's `d_vocab`, and a BOS token that no file asks for, are notes too.
TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder, const ModelConfig& config);

/// Reads a tokenizer from one file. Throws TokenizerError; for a file of another name, it says from which
/// files a tokenizer can be read.
Tokenizer tokenizer_in_file(const std::filesystem::path& file);

/// The same, with the tokenizer and its files read by `read`, which may throw TokenizerError.
TokenizerFiles tokenizer_by(const std::function<void(TokenizerFiles&)>& read, const ModelConfig& config);

/// The tokens that are put around a text by default (decision 88), and why.
TokensAround tokens_around(const Tokenizer& tokenizer, const ModelConfig& config);

/// A sentence about a BOS token that texts get though no file asks for it.
std::optional<std::string> bos_note(const Tokenizer& tokenizer, const ModelConfig& config);

/// The tokens that end a generation, from the first source that names some: generation_config.json,
/// config.json, its group that was read, the tokenizer.
std::vector<std::int64_t> stop_tokens_of(const GenerationConfig& generation, const ConfigText& config,
                                         const TokenizerFiles& text);

}  // namespace hooked
