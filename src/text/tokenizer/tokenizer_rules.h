#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/text/tokenizer.h"
#include "text/files/chat_templates.h"
#include "text/files/side_files.h"
#include "text/model/added_tokens.h"
#include "text/model/model.h"
#include "text/pipeline/decoder.h"
#include "text/pipeline/normalizer.h"
#include "text/pipeline/post_processor.h"
#include "text/pipeline/pre_tokenizer.h"

namespace hooked {

/// The pipeline that a tokenizer.json describes, and the options of a tokenizer_config.json. Parts that a
/// file does not have are null.
struct Tokenizer::Rules {
  std::unique_ptr<const text::Normalizer> normalizer;
  text::PreTokenizers pre_tokenizers;
  std::unique_ptr<const text::Model> model;
  text::AddedTokens added;
  std::unique_ptr<const text::PostProcessor> post_processor;
  std::unique_ptr<const text::Decoder> decoder;
  std::optional<std::int64_t> bos;
  std::optional<std::int64_t> eos;
  std::optional<TokensAround> around;  ///< if the files say anything about it
  bool splits_special_tokens = false;  ///< default: special tokens in a text are plain text
  std::vector<std::string> notes;      ///< what a user should know about the files
  std::string form;                    ///< which files it was read from, and what they are
  text::ChatTemplates chat;
  std::map<std::int64_t, std::string> without_piece;  ///< ids of the post-processor, spelled `<560>`

  /// Tokens that the files put around a text, in addition to those of the post-processor.
  void put_around(TokensAround tokens);

  /// Which tokens begin and end a text, as the files or `defaults` name them.
  void take_ends(const text::SideFiles& beside, std::span<const text::DefaultToken> defaults);

  /// Those of them that the keys of tokenizer_config.json put around a text.
  TokensAround around_by_keys(const text::SideFiles& beside) const;

  /// The options for texts in tokenizer_config.json, whatever files the pipeline was read from.
  void take_text_options(const text::SideFiles& beside);

  /// Sets the chat templates, and adds a note if they cannot be used.
  void take_chat(text::ChatTemplates templates);

  /// The spelling of an id, or null.
  const std::string* piece(std::int64_t id) const noexcept {
    const auto* token = added.token(id);
    if (token) return &token->content;
    if (const auto* piece = model->vocabulary().piece(id)) return piece;
    const auto known = without_piece.find(id);
    return known == without_piece.end() ? nullptr : &known->second;
  }

  std::optional<std::int64_t> find(std::string_view piece) const noexcept {
    const auto id = added.find(piece);
    return id ? id : model->vocabulary().find(piece);
  }

  /// One past the largest id.
  std::int64_t size() const noexcept { return std::max(added.size(), model->vocabulary().size()); }

  /// The whole of `text`, normalized.
  std::string normalize(std::string_view text) const;
};

namespace text {

/// Reads the text of the tokenizer.json `name`, as `AutoTokenizer` reads it with the files `beside` it.
/// Throws TokenizerError.
Tokenizer::Rules read_tokenizer(std::string_view json, std::string_view name, const SideFiles& beside);

/// The pipeline of a tokenizer.json that was parsed, or assembled from other files, under the name `name`.
/// Throws TokenizerError.
Tokenizer::Rules read_rules(Json document, std::string_view name);

/// The bytes of a file of a tokenizer. Throws IoError, and TokenizerError for one of more than
/// Tokenizer::kFileBytes.
std::string read_tokenizer_bytes(const std::filesystem::path& file);

/// Parses JSON, with the limits of a tokenizer's files. The keys of the object at `repeating` may repeat; an
/// empty path is the whole document. Throws TokenizerError.
Json parse_tokenizer_json(std::string_view json, std::string_view name,
                          std::optional<std::vector<std::string_view>> repeating = std::nullopt);

}  // namespace text
}  // namespace hooked
