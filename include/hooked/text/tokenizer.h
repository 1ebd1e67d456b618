#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/core/shared.h"
#include "hooked/text/chat.h"
#include "hooked/text/encoding.h"

namespace HOOKED_EXPORT hooked {

namespace text {
struct ChatTemplates;
}

/// How several texts are encoded.
struct BatchOptions {
  EncodeOptions encode{};  ///< of each text
  /// Threads that share the texts; 0 is one per processor. The result does not depend on it.
  std::size_t threads = 0;
};

/// Turns text into token ids and back, by the pipeline that a Hugging Face `tokenizer.json` describes:
/// normalizer, pre-tokenizer, model, post-processor and decoder, and the added tokens. Ids, offsets and
/// decoded text equal those of the PyPI package `tokenizers`. Repositories without that file have older ones
/// (SentencePiece's, tiktoken's, word lists), which become the same pipeline; ids and decoded text equal
/// those of the package that reads them. docs/tokenizers.md says what is supported and what is refused. The
/// file's `truncation` and `padding` are not applied.
///
/// A cheap handle on immutable rules: copies share them, and every function may be called from several
/// threads.
class Tokenizer {
 public:
  /// The longest file of a vocabulary or its merges that is read: 256 MiB.
  static constexpr std::uint64_t kFileBytes = std::uint64_t{256} << 20;

  /// Reads the tokenizer of a folder: the first that exists of tokenizer.json, tekken.json, tokenizer.model
  /// (or spiece.model, sentencepiece.bpe.model), qwen.tiktoken, vocab.json with merges.txt (or encoder.json
  /// with vocab.bpe) and vocab.txt. The folder's tokenizer_config.json, if there is one, names the BOS and
  /// EOS tokens; without a tokenizer.json, it also says how the vocabulary is used. Or reads one such file,
  /// and no other; a file of another name is read as a tokenizer.json. Throws TokenizerError naming the place
  /// and the actual value; IoError if a file cannot be read.
  static Tokenizer load(const std::filesystem::path& path);

  /// The names of the files in `folder` that make up its tokenizer, including tokenizer_config.json; none if
  /// it has no tokenizer.
  static std::vector<std::string> files_in(const std::filesystem::path& folder);

  /// Every name that such a file can have.
  static std::span<const std::string_view> file_names() noexcept;

  /// The files of files_in() by name, as another folder needs them: if only config.json tells which tokenizer
  /// class they are for, tokenizer_config.json says so. Files that only chat templates need are left out if
  /// they cannot be read. Throws TokenizerError, IoError.
  static std::map<std::string, std::string> read_files(const std::filesystem::path& folder);

  /// Builds the pipeline from the text of a tokenizer.json. `config` is the text of the tokenizer_config.json
  /// that belongs to it, or empty. Throws TokenizerError naming `name` and the JSON path.
  static Tokenizer parse(std::string_view json, std::string_view name = "tokenizer.json",
                         std::string_view config = {});

  /// The same pipeline for a model whose embedding has `d_vocab` rows. Published models have more rows than
  /// pieces. Ids up to d_vocab without a piece are then valid ids without text: decode() leaves them out,
  /// piece(), decoded_piece() and printable_piece() return `<id>`.
  Tokenizer for_vocabulary(std::int64_t d_vocab) const;

  /// The tokens of `text`. Time is n log n in its length at worst. Throws TokenizerError for text that is not
  /// UTF-8 (with the byte), for a word that is not in the vocabulary if the file has no unknown token, and if
  /// a regular expression of the file takes too long.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// The tokens of each of `texts`, by several threads. Throws what encode() throws for the first text that
  /// cannot be encoded.
  std::vector<Encoding> encode_batch(std::span<const std::string> texts,
                                     const BatchOptions& options = {}) const;

  /// The text of `ids`; without a decoder in the file, their pieces joined by blanks.
  ///
  /// Text can be streamed: the text of the ids so far with `more_follow` only grows, and never changes.
  ///
  /// A token may cover only part of a character. If `ids` do not complete such a part, it becomes U+FFFD: one
  /// for each piece `<0xEF>`, else one for each run of bytes that begins a character. Throws TokenizerError
  /// for an id that is not valid, with its place in `ids`.
  std::string decode(std::span<const std::int64_t> ids, const DecodeOptions& options = {}) const;

  /// The only token of `text`. Throws TokenizerError if it has none or several, naming them.
  std::int64_t to_token(std::string_view text) const;

  /// The spelling of an id. Throws TokenizerError for an id that is not valid.
  std::string piece(std::int64_t id) const;

  /// The text that an id adds to those before it: decoded, with its blank. It may begin or end within a
  /// character, and is then not UTF-8. Throws TokenizerError for an id that is not valid.
  std::string decoded_piece(std::int64_t id) const;

  /// The same for people to read: control characters and bytes of unfinished characters are escaped (`\n`,
  /// `\xe2`). Throws as decoded_piece().
  std::string printable_piece(std::int64_t id) const;

  /// The id of a piece with exactly this spelling, or nothing.
  std::optional<std::int64_t> find(std::string_view piece) const;

  /// One past the largest id of a piece. There may be gaps below it.
  std::int64_t vocab_size() const;

  /// The token for the beginning of a sequence, if tokenizer_config.json names one.
  std::optional<std::int64_t> bos_id() const;

  /// The token for the end of a sequence, if tokenizer_config.json names one.
  std::optional<std::int64_t> eos_id() const;

  /// The token that tokenizer_config.json names under that key, `pad_token` or `sep_token`; nothing if it
  /// names none, or one that the vocabulary lacks.
  std::optional<std::int64_t> special_id(std::string_view key) const;

  /// What the files put around a text: the template of the post-processor, else add_bos_token and
  /// add_eos_token. Nothing if no file says anything about it.
  const std::optional<TokensAround>& around() const&;
  /// The same of a temporary, as a copy.
  std::optional<TokensAround> around() const&& { return around(); }

  /// What a user should know about the files, such as pieces that a vocabulary names more than once; usually
  /// empty.
  const std::vector<std::string>& notes() const&;
  /// The same of a temporary, as a copy.
  std::vector<std::string> notes() const&& { return notes(); }

  /// The form that it was read from, of those that load() knows, for people to read: `tokenizer.json`,
  /// `tokenizer.model (SentencePiece)`.
  const std::string& form() const&;
  /// The same of a temporary, as a copy.
  std::string form() const&& { return form(); }
  /// How it cuts words into pieces, by its name in the file: `BPE`, `Unigram`, `WordPiece` or `WordLevel`.
  std::string_view kind() const;

  /// Where the chat template was read from: a file, or a file and a key; nothing if there is none, or one
  /// that cannot be read, which notes() say.
  std::optional<std::string> chat_template() const;

  /// The same pipeline with `jinja` as its chat template, which errors call `name`.
  Tokenizer with_chat_template(std::string_view jinja, std::string_view name = "chat template") const;

  /// The text of a conversation by the folder's chat template, equal to transformers'
  /// `apply_chat_template(tokenize=False)`. The library's own interpreter runs the template, which can read
  /// and change nothing else. Throws TokenizerError with line and column for a template that is damaged, uses
  /// what is not supported here (docs/tokenizers.md), refuses these messages, or takes too many steps or too
  /// much memory; and if there is none.
  std::string chat_text(const std::vector<ChatMessage>& messages, const ChatOptions& options = {}) const;

  /// The tokens of that text, equal to `apply_chat_template`; offsets are places in the text. Special tokens
  /// spelled in contents are tokens, as in transformers: callers that do not trust the contents should read
  /// docs/tokenizers.md.
  Encoding to_chat_tokens(const std::vector<ChatMessage>& messages, const ChatOptions& options = {}) const;

  struct Rules;

 private:
  explicit Tokenizer(std::shared_ptr<const Rules> rules);

  /// The spelling of an id, null for a valid one without text. Throws TokenizerError naming `where`.
  const std::string* find_piece(std::string_view where, std::int64_t id) const;

  const text::ChatTemplates& chat() const;

  Shared<const Rules> rules_;
  std::shared_ptr<const text::ChatTemplates> chat_;  ///< null: those of the rules
  std::int64_t model_vocabulary_ = 0;                ///< ids below it are valid, with or without a piece
};

}  // namespace hooked
