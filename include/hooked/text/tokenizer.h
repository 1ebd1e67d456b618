#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hooked {

/// Bytes [begin, end) of a UTF-8 text.
struct TextSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const TextSpan&) const = default;
};

/// A text as tokens: three lists of equal length.
struct Encoding {
  std::vector<std::int64_t> ids;
  std::vector<std::string> pieces;  ///< the vocabulary's spelling of each id
  std::vector<TextSpan>
      offsets;  ///< where each token stands in the text; [0, 0) for tokens that were added to it
};

/// How a text is read.
struct EncodeOptions {
  /// Put the tokens around the text that the file's post-processor asks for.
  bool add_special_tokens = false;
  /// Take the spelling of an added token (`<bos>`) inside the text for that token; otherwise it is ordinary
  /// text.
  bool parse_added_tokens = true;
};

/// How ids are written out.
struct DecodeOptions {
  bool skip_special_tokens = false;
};

/// Turns text into token ids and back, as a Hugging Face `tokenizer.json` says.
///
/// A cheap handle on immutable rules: copies share them, and every function may be called from several
/// threads.
///
/// Supported for now: model `WordLevel`, no normalizer, pre-tokenizer `Whitespace` or `WhitespaceSplit` (or
/// none), no decoder, post-processor `TemplateProcessing` (or none), and added tokens that are matched by
/// their exact spelling. Anything else is refused by its place in the file, never approximated. The file's
/// `truncation` and `padding` are not applied.
class Tokenizer {
 public:
  /// Reads a tokenizer.json, or the one in a folder together with the folder's tokenizer_config.json, which
  /// names the BOS and EOS tokens. Throws TokenizerError naming the JSON path and the value met; IoError when
  /// a file cannot be read.
  static Tokenizer load(const std::filesystem::path& path);

  /// The tokens of `text`. Linear in its length.
  /// Throws TokenizerError for text that is not UTF-8 (with the byte), and for a word that is not in the
  /// vocabulary when the file has no unknown token.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// The text of `ids`; a word-level vocabulary's pieces are joined by blanks.
  /// Throws TokenizerError for an id that is not in the vocabulary, with its place in `ids`.
  std::string decode(std::span<const std::int64_t> ids, const DecodeOptions& options = {}) const;

  /// The spelling of an id. Throws TokenizerError for an id that is not in the vocabulary. Lives as long as a
  /// copy of this tokenizer.
  const std::string& piece(std::int64_t id) const;

  /// The id of a piece spelled exactly so, or nothing.
  std::optional<std::int64_t> find(std::string_view piece) const noexcept;

  /// One past the largest id. There may be gaps below it.
  std::int64_t vocab_size() const noexcept;

  /// The token for the beginning of a sequence, where tokenizer_config.json names one.
  std::optional<std::int64_t> bos_id() const noexcept;

  /// The token for the end of a sequence, where tokenizer_config.json names one.
  std::optional<std::int64_t> eos_id() const noexcept;

  struct Rules;

 private:
  explicit Tokenizer(std::shared_ptr<const Rules> rules);

  std::shared_ptr<const Rules> rules_;
};

}  // namespace hooked
