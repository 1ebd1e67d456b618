#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/files/side_files.h"

namespace hooked::text {

/// Steps of a normalizer, a pre-tokenizer or a decoder, as a tokenizer.json has them.
using Steps = std::vector<Json>;

/// The character that SentencePiece's pieces have for a blank.
inline constexpr std::string_view kBlank = "\u2581";

/// How Qwen's tokenizers cut a text into words, in every form of their files.
inline constexpr std::string_view kQwenWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// A step without options.
Json step(std::string_view type);
Json byte_level_step(bool add_prefix_space);
Json digits_step();
Json split_step(Json pattern, std::string_view behavior);
Json replace_step(Json pattern, std::string_view content);
Json metaspace_step(std::string_view prepend_scheme, bool split = true);
Json word_piece_step();
Json strip_right_step();
Json strip_first_blank_step();
/// The steps from SentencePiece's pieces with byte fallback to text, except for the first blank.
Steps blanks_and_bytes_steps();

/// A tokenizer.json while a class of transformers changes it by the options of tokenizer_config.json.
class ClassParts {
 public:
  ClassParts(Json& document, const SideFiles& beside, std::span<const DefaultToken> defaults)
      : document_(document), beside_(beside), defaults_(defaults), tokens_{.defaults = defaults} {}

  bool flag(std::string_view key, bool fallback) const { return beside_.flag(key, fallback); }
  std::int64_t number(std::string_view key, std::int64_t fallback) const;
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::string> token(std::string_view key) const { return beside_.token(key, defaults_); }

  /// Options of BPE; each is off by default.
  struct Bpe {
    bool unknown = false;  ///< `unk_token` replaces characters that it lacks
    bool fuses = false;    ///< several in a row become one
    bool bytes = false;    ///< their bytes replace them instead
    const char* suffix = nullptr;
  };
  void bpe(const Bpe& options);
  void word_piece();
  void unigram(std::int64_t unknown_id);
  /// The id of the unknown token's piece, if its score is 0; its spelling is `spelled` if none is named.
  std::int64_t unknown_id(std::int64_t fallback, std::string_view spelled) const;
  /// The first id of that token's piece.
  std::int64_t first_id(std::string_view key, std::string_view spelled, std::int64_t fallback) const;

  /// Replaces the file's.
  void normalize(Steps normalizer);
  void pipeline(Steps normalizer, Steps pre_tokenizer, Steps decoder);
  /// A pipeline whose words begin with blanks.
  void metaspace(Steps normalizer, std::string_view prepend_scheme);
  /// Appends the rules of SentencePiece that the file's normalizer has.
  void add_charsmap(Steps& steps) const;
  Json bert_normalizer() const;

  /// A special token that the class adds if tokenizer_config.json lists none.
  void extra(std::string token) { tokens_.extras.push_back(std::move(token)); }
  /// How these and all other tokens are added.
  ClassTokens& tokens() noexcept { return tokens_; }

  /// Replaces what the file puts around a text by the tokens of these keys. Throws TokenizerError for a key
  /// without a token.
  void around(const std::vector<std::string_view>& before, const std::vector<std::string_view>& behind);
  /// The same by spelling; the unknown token replaces those that are not in the vocabulary.
  void around_spelled(const std::vector<std::string>& before, const std::vector<std::string>& behind);
  bool has_post_processor() const;
  /// Excludes white space from tokens' offsets, as RoBERTa's post-processor does.
  void trim_offsets();
  /// The same by ids.
  void around_ids(const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& behind);

 private:
  Json& model() { return document_["model"]; }
  std::optional<std::int64_t> id_of(std::string_view spelled) const;

  Json& document_;
  const SideFiles& beside_;
  std::span<const DefaultToken> defaults_;
  ClassTokens tokens_;
};

/// What many classes put around a text.
void cls_and_sep(ClassParts& parts);
void bos_and_eos(ClassParts& parts);

// Special tokens of several classes.
inline constexpr DefaultToken kRobertaTokens[] = {
    {"bos_token", "<s>"},   {"eos_token", "</s>"}, {"unk_token", "<unk>"},  {"sep_token", "</s>"},
    {"pad_token", "<pad>"}, {"cls_token", "<s>"},  {"mask_token", "<mask>"}};
/// As kRobertaTokens, but `<mask>` takes the blank before it.
inline constexpr DefaultToken kMaskWithBlank[] = {
    {"bos_token", "<s>"},   {"eos_token", "</s>"}, {"unk_token", "<unk>"},        {"sep_token", "</s>"},
    {"pad_token", "<pad>"}, {"cls_token", "<s>"},  {"mask_token", "<mask>", true}};
inline constexpr DefaultToken kDebertaTokens[] = {
    {"bos_token", "[CLS]"}, {"eos_token", "[SEP]"}, {"unk_token", "[UNK]"},  {"sep_token", "[SEP]"},
    {"pad_token", "[PAD]"}, {"cls_token", "[CLS]"}, {"mask_token", "[MASK]"}};

/// A class of transformers that builds its pipeline, or several that build the same one.
struct ClassRow {
  std::string_view names;      ///< without `Fast`, blanks between them
  std::string_view model;      ///< of a tokenizer.json: `BPE`, `WordPiece`, `Unigram`
  void (*build)(ClassParts&);  ///< normalizer, pre-tokenizer, decoder, model options; null: by the file
  std::span<const DefaultToken> tokens;   ///< if tokenizer_config.json names no others
  void (*around)(ClassParts&) = nullptr;  ///< what is put around a text; null: by the file
};

/// Classes that first cut texts into words.
std::span<const ClassRow> word_class_rows();
/// Classes with SentencePiece's pieces.
std::span<const ClassRow> piece_class_rows();

}  // namespace hooked::text
