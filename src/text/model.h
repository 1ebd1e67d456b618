#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "hooked/text/tokenizer.h"
#include "text/json_node.h"
#include "text/vocabulary.h"

namespace hooked {

/// A token of a word: its id and the bytes of the word that it stands for.
struct WordToken {
  std::int64_t id;
  TextSpan span;
};

/// Turns the words of one text into tokens. Keeps what it can use again for the next word, so one thread at a
/// time.
class WordEncoder {
 public:
  virtual ~WordEncoder() = default;

  /// Appends the tokens of `word`, valid UTF-8 and not empty, which must stay where it is as long as this
  /// lives. Throws TokenizerError for a word that the model has no tokens for.
  virtual void encode(std::string_view word, std::vector<WordToken>& tokens) = 0;
};

/// How words become tokens. Immutable.
class Model {
 public:
  explicit Model(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~Model() = default;

  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }

  /// An encoder for a text of so many bytes. The model must outlive it.
  virtual std::unique_ptr<WordEncoder> encoder(std::size_t text_bytes) const = 0;

  /// The id whose tokens' text, where white space is trimmed from offsets, is the text they stand for and not
  /// the spelling of the id.
  virtual std::optional<std::int64_t> id_without_spelling() const noexcept { return std::nullopt; }

 private:
  Vocabulary vocabulary_;
};

/// Whether the words that a model is given are the bytes of the text itself, where its vocabulary spells
/// bytes as characters (`byte_characters.h`), or the characters of its vocabulary.
enum class WordSpelling : std::uint8_t { characters, bytes };

/// Whether the `model` of a tokenizer.json can be given bytes.
bool model_reads_bytes(const JsonNode& node);

/// Reads the `model` of a tokenizer.json. Throws TokenizerError.
std::unique_ptr<const Model> read_model(const JsonNode& node, WordSpelling spelling);

}  // namespace hooked
