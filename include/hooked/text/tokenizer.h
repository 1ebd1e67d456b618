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
/// decoded text are those of the PyPI package `tokenizers`. Repositories without that file have older ones
/// (SentencePiece's, tiktoken's, word lists), which become the same pipeline; ids and decoded text are those
/// of the package that reads them. docs/tokenizers.md says what is read and what is refused. The file's
/// `truncation` and `padding` are not applied.
///
/// A cheap handle on immutable rules: copies share them, and every function may be called from several
/// threads.
class Tokenizer {
 public:
  /// The longest file of a vocabulary or its merges that is read: 256 MiB.
  static constexpr std::uint64_t kFileBytes = std::uint64_t{256} << 20;

  /// Reads the tokenizer of a folder: the first that is there of tokenizer.json, tekken.json, tokenizer.model
  /// (or spiece.model, sentencepiece.bpe.model), qwen.tiktoken, vocab.json with merges.txt (or encoder.json
  /// with vocab.bpe) and vocab.txt. The folder's tokenizer_config.json, where there is one, names the BOS and
  /// EOS tokens; without a tokenizer.json, it says how the vocabulary is used, too. Or reads one such file,
  /// and nothing beside it; a file of another name is taken for a tokenizer.json. Throws TokenizerError
  /// naming the place and the value met; IoError when a file cannot be read.
  static Tokenizer load(const std::filesystem::path& path);

  /// The names of the files in `folder` that make up its tokenizer, tokenizer_config.json with them; none if
  /// it has no tokenizer.
  static std::vector<std::string> files_in(const std::filesystem::path& folder);

  /// Every name that such a file can have.
  static std::span<const std::string_view> file_names() noexcept;

  /// The files of files_in() by name, as another folder needs them: where only config.json tells which class
  /// of tokenizer they are for, tokenizer_config.json says so. Files that only chat templates need are left
  /// out where they cannot be read. Throws TokenizerError, IoError.
  static std::map<std::string, std::string> read_files(const std::filesystem::path& folder);

  /// Builds the pipeline of the text of a tokenizer.json. `config` is that of the tokenizer_config.json
  /// beside it, or empty. Throws TokenizerError naming `name` and the JSON path.
  static Tokenizer parse(std::string_view json, std::string_view name = "tokenizer.json",
                         std::string_view config = {});

  /// The same pipeline for a model whose embedding has `d_vocab` rows. Published models have more rows than
  /// pieces, so ids up to d_vocab that no piece has are valid ids without text then: decode() leaves them
  /// out, piece() and printable_piece() give `<id>`.
  Tokenizer for_vocabulary(std::int64_t d_vocab) const;

  /// The tokens of `text`. Time is n log n in its length at worst.
  /// Throws TokenizerError for text that is not UTF-8 (with the byte), for a word that is not in the
  /// vocabulary when the file has no unknown token, and when a regular expression of the file takes too long.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// The tokens of each of `texts`, by several threads. Throws what encode() throws for the first text that
  /// cannot be encoded.
  std::vector<Encoding> encode_batch(std::span<const std::string> texts,
                                     const BatchOptions& options = {}) const;

  /// The text of `ids`; without a decoder in the file, their pieces joined by blanks.
  ///
  /// Text can be streamed: what the ids so far decode to with `more_follow` grows, and never changes.
  ///
  /// A token may stand for a part of a character only. Such a part that `ids` do not complete becomes U+FFFD:
  /// one for each piece `<0xEF>`, else one for each run of bytes that begins a character.
  /// Throws TokenizerError for an id that is not valid, with its place in `ids`.
  std::string decode(std::span<const std::int64_t> ids, const DecodeOptions& options = {}) const;

  /// The one token of `text`. Throws TokenizerError when it has none or several, naming them.
  std::int64_t to_token(std::string_view text) const;

  /// The spelling of an id. Throws TokenizerError for an id that is not valid.
  std::string piece(std::int64_t id) const;

  /// What an id adds to a text, for people to read: decoded, with control characters and bytes of unfinished
  /// characters escaped (`\n`, `\xe2`). Throws TokenizerError for an id that is not valid.
  std::string printable_piece(std::int64_t id) const;

  /// The id of a piece spelled exactly so, or nothing.
  std::optional<std::int64_t> find(std::string_view piece) const;

  /// One past the largest id of a piece. There may be gaps below it.
  std::int64_t vocab_size() const;

  /// The token for the beginning of a sequence, where tokenizer_config.json names one.
  std::optional<std::int64_t> bos_id() const;

  /// The token for the end of a sequence, where tokenizer_config.json names one.
  std::optional<std::int64_t> eos_id() const;

  /// What the files put around a text: the template of the post-processor, else add_bos_token and
  /// add_eos_token. Nothing where no file says anything about it.
  const std::optional<TokensAround>& around() const&;
  /// The same of a temporary, as a copy.
  std::optional<TokensAround> around() const&& { return around(); }

  /// What a user should know about the files, such as pieces that a vocabulary names more than once; none for
  /// most.
  const std::vector<std::string>& notes() const&;
  /// The same of a temporary, as a copy.
  std::vector<std::string> notes() const&& { return notes(); }

  /// Which of the forms that load() knows it was read from, for people to read: `tokenizer.json`,
  /// `tokenizer.model (SentencePiece)`.
  const std::string& form() const&;
  /// The same of a temporary, as a copy.
  std::string form() const&& { return form(); }
  /// How it makes pieces of words, as tokenizer.json names it: `BPE`, `Unigram`, `WordPiece` or `WordLevel`.
  std::string_view kind() const;

  /// Where the chat template was read from: a file, or a file and a key; nothing where there is none, or one
  /// that cannot be read, which notes() say.
  std::optional<std::string> chat_template() const;

  /// The same pipeline with `jinja` for its chat template, which errors call `name`.
  Tokenizer with_chat_template(std::string_view jinja, std::string_view name = "chat template") const;

  /// A conversation as the text that the folder's chat template makes of it, equal to transformers'
  /// `apply_chat_template(tokenize=False)`: the template is run by an interpreter of its own, which can read
  /// and change nothing else. Throws TokenizerError with line and column for a template that is damaged, does
  /// what is not read here (docs/tokenizers.md), refuses these messages, or takes too many steps or too much
  /// memory; and where there is none.
  std::string chat_text(const std::vector<ChatMessage>& messages, const ChatOptions& options = {}) const;

  /// The tokens of that text, equal to `apply_chat_template`; offsets are places in the text. Special tokens
  /// that contents spell are tokens, as in transformers: whoever does not trust them reads
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
  std::int64_t model_vocabulary_ = 0;  ///< ids below it are valid, whether a piece has them or not
};

}  // namespace hooked
