#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/model/added_tokens.h"
#include "text/model/model.h"
#include "text/pipeline/decoder.h"
#include "text/pipeline/normalizer.h"
#include "text/strings/piece_trie.h"

namespace hooked::text {

/// The character that SentencePiece writes for a blank.
inline constexpr std::string_view kSpaceSymbol = "\u2581";

/// A SentencePiece model: the content of a `tokenizer.model`, or the header of another file made from one.
/// The names are those of sentencepiece_model.proto.
struct SentencePieceModel {
  /// How a text is cut (`trainer_spec.model_type`).
  enum class Kind : std::uint8_t { unigram, bpe };

  /// The purpose of a piece, numbered as in files.
  enum class Type : std::uint8_t {
    normal = 1,
    unknown = 2,       ///< replaces characters that no piece has; exactly one piece
    control = 3,       ///< never found in a text: `<s>`
    user_defined = 4,  ///< always a token wherever it occurs in a text
    unused = 5,        ///< has an id and is never a token
    byte = 6,          ///< `<0xEF>`: a byte of a character that no piece has
  };

  /// One row of the vocabulary.
  struct Piece {
    std::string text;
    float score = 0;  ///< unigram: a log-probability; BPE: the higher, the earlier it is joined
    Type type = Type::normal;
  };

  Kind kind = Kind::unigram;
  std::vector<Piece> pieces;                ///< [id]
  bool byte_fallback = false;               ///< unknown characters as bytes; then there are 256 such pieces
  bool treat_whitespace_as_suffix = false;  ///< the dummy prefix is a suffix
  bool add_dummy_prefix = true;             ///< a blank before the text
  bool remove_extra_whitespaces = true;     ///< removes blanks at the ends, and all but one of several
  bool escape_whitespaces = true;           ///< blanks are kSpaceSymbol in pieces
  std::string precompiled_charsmap;         ///< the normalizer's rules (Charsmap); empty: none
  std::string unk_surface = " \u2047 ";     ///< text of the decoded unknown piece
  std::optional<std::string> bos = "<s>";   ///< name of the token, if there is one
  std::optional<std::string> eos = "</s>";  ///< the same

  /// The id of the only piece of a type, or of the first piece of its type; -1 if there is
  /// none.
  std::int64_t first_of(Type type) const noexcept;
};

/// Reads the bytes of a `tokenizer.model` (a protobuf ModelProto) from the file `where`. Throws
/// TokenizerError, with the place, for malformed bytes and for what is not supported: models of words or
/// characters, rules for decoding.
SentencePieceModel read_sentencepiece_model(std::string_view bytes, std::string_view where);

/// Throws TokenizerError, with `where` as its place, for a model that the package also refuses (no or several
/// unknown pieces, empty or repeated ones, missing bytes), for scores that are not finite, and for pieces
/// that are too long or not UTF-8.
void check_pieces(const SentencePieceModel& model, std::string_view where);

// The parts, each in its own source. Models have been checked.

/// How both kinds tokenize characters that no piece has.
class UnknownCharacters {
 public:
  UnknownCharacters(const SentencePieceModel& model, const Vocabulary& vocabulary);

  /// Appends the tokens of `text`, which begins at byte `begin` of the word: its bytes, or the unknown piece.
  /// Several unknown pieces in a row are one token. `first` is the number of tokens before the word.
  void add(std::string_view text, std::size_t begin, std::size_t first, std::vector<WordToken>& tokens) const;

  std::int64_t id() const noexcept { return unknown_; }

 private:
  std::int64_t unknown_;
  std::vector<std::int64_t> bytes_;  // [byte]; empty without byte fallback
};

/// SentencePiece's two models.
std::unique_ptr<const Model> make_sentencepiece_bpe(const SentencePieceModel& model, Vocabulary vocabulary);
std::unique_ptr<const Model> make_sentencepiece_unigram(const SentencePieceModel& model,
                                                        Vocabulary vocabulary);

/// The user-defined pieces of a model, which are searched for in a text: values are their ids.
PieceTrie user_defined_pieces(const SentencePieceModel& model);

/// SentencePiece's normalizer. Throws std::invalid_argument with the reason for a malformed charsmap.
std::unique_ptr<const Normalizer> make_sentencepiece_normalizer(const SentencePieceModel& model);

/// SentencePiece's decoder. The unknown piece becomes `unk_surface`.
std::unique_ptr<const Decoder> make_sentencepiece_decoder(const SentencePieceModel& model);

}  // namespace hooked::text
