#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config_reader.h"
#include "hooked/text/encoding.h"
#include "text/model/vocabulary.h"

namespace hooked::text {

/// A token of a word: its id and the bytes of the word that it covers.
struct WordToken {
  std::int64_t id;
  TextSpan span;
};

/// A word outside the vocabulary of a model without an unknown token. The tokenizer, which knows the word's
/// position, turns it into a TokenizerError.
class UnknownWord : public std::exception {
 public:
  explicit UnknownWord(std::string_view word) : word_(word) {}
  const std::string& word() const noexcept { return word_; }
  const char* what() const noexcept override { return "a word is not in the vocabulary"; }

 private:
  std::string word_;
};

/// Turns the words of one text into tokens. Caches what later words of the text can use, so it belongs to one
/// thread.
class WordEncoder {
 public:
  virtual ~WordEncoder() = default;

  /// Appends the tokens of `word`, which is valid UTF-8, not empty, and must stay in memory as long as this
  /// lives. Throws UnknownWord, and TokenizerError for a word that is too long.
  virtual void encode(std::string_view word, std::vector<WordToken>& tokens) = 0;
};

/// Whether a model's input words are the bytes of the text itself, for vocabularies that spell bytes as
/// characters (`byte_characters.h`), or the characters of its vocabulary.
enum class WordSpelling : std::uint8_t { characters, bytes };

/// How words become tokens. Immutable.
class Model {
 public:
  explicit Model(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~Model() = default;

  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }

  /// The kind of the model, by its name in tokenizer.json: `BPE`, `WordPiece`, `WordLevel` or
  /// `Unigram`.
  virtual std::string_view kind() const noexcept = 0;

  /// The required spelling of its words.
  virtual WordSpelling spelling() const noexcept { return WordSpelling::characters; }

  /// An encoder for a text of `text_bytes` bytes. The model must outlive it.
  virtual std::unique_ptr<WordEncoder> encoder(std::size_t text_bytes) const = 0;

  /// The id whose tokens report the text that they cover instead of the id's spelling, if white space is
  /// trimmed from offsets.
  virtual std::optional<std::int64_t> id_without_spelling() const noexcept { return std::nullopt; }

 private:
  Vocabulary vocabulary_;
};

/// Reads the `model` of a tokenizer.json. `spelling` is what its words could be: a model that cannot read
/// bytes needs characters (see Model::spelling). Throws TokenizerError.
std::unique_ptr<const Model> read_model(const ConfigReader& json, WordSpelling spelling);

/// The models of `type` BPE, Unigram and WordPiece, each in its own source.
std::unique_ptr<const Model> read_bpe(const ConfigReader& json, WordSpelling spelling);
std::unique_ptr<const Model> read_unigram(const ConfigReader& json, WordSpelling spelling);
std::unique_ptr<const Model> read_word_piece(const ConfigReader& json, WordSpelling spelling);

class MergeTable;

/// Byte-pair encoding of words that are bytes. The vocabulary spells them as characters (`byte_characters.h`)
/// and has one for each of the 256 bytes; a word that is a piece is that token.
std::unique_ptr<const Model> make_byte_bpe(Vocabulary vocabulary, MergeTable merges);

/// The ids of the pieces `<0x00>` to `<0xFF>`, -1 for missing ones.
std::vector<std::int64_t> byte_piece_ids(const Vocabulary& vocabulary);

}  // namespace hooked::text
