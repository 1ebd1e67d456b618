#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/config_reader.h"
#include "hooked/text/encoding.h"
#include "text/model/vocabulary.h"
#include "text/strings/piece_trie.h"

namespace hooked::text {

/// A token that is searched for in the text itself, before it is cut into words.
struct AddedToken {
  std::int64_t id;
  std::string content;
  bool single_word = false;  ///< not inside a word
  bool lstrip = false;       ///< includes the white space before it
  bool rstrip = false;       ///< includes the white space after it
  bool normalized = false;   ///< searched for in the normalized text, in its normalized spelling
  bool special = false;      ///< left out when decoding skips special tokens
  bool was_normalized =
      false;  ///< decoded in its normalized spelling, whether or not it is searched for in it
};

/// The key of `was_normalized`, which no file has: it says that a token was listed twice.
inline constexpr std::string_view kWasNormalized = "was_normalized";

/// The added tokens of a tokenizer.
class AddedTokens {
 public:
  /// Applies the normalizer to a text.
  using Normalize = std::function<std::string(std::string_view)>;

  AddedTokens() = default;
  AddedTokens(std::vector<AddedToken> tokens, const Normalize& normalize);

  /// A part of a text: an added token, or (id -1) the text between two.
  struct Part {
    TextSpan span;
    std::int64_t id = -1;
  };

  /// Which text a token is searched for in.
  enum class Stage : std::uint8_t { original, normalized };

  /// Cuts `text` at the tokens of one stage: the leftmost first, the longest of those that begin at the same
  /// place.
  std::vector<Part> split(std::string_view text, Stage stage, AddedTokensInText choice) const;

  /// The id of a token with this content, or nothing.
  std::optional<std::int64_t> find(std::string_view content) const noexcept;

  /// The token of an id, or null.
  const AddedToken* token(std::int64_t id) const noexcept;

  /// The spelling of a known id when ids are decoded: as normalized.
  const std::string& decoded(std::int64_t id) const;

  /// Whether `spelled` is the content of a special token.
  bool special(std::string_view spelled) const noexcept { return special_.contains(spelled); }

  /// Contents of tokens whose normalized form is empty: they are never found in a text.
  const std::vector<std::string>& never_found() const noexcept { return never_found_; }

  /// One past the largest id.
  std::int64_t size() const noexcept { return size_; }

 private:
  std::vector<AddedToken> tokens_;
  std::unordered_map<std::int64_t, std::size_t> by_id_;
  std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>> by_content_;
  std::unordered_map<std::int64_t, std::string> normalized_;  // spellings that differ from the content
  std::unordered_set<std::string, TextHash, std::equal_to<>> special_;
  std::vector<std::string> never_found_;
  PieceTrie original_trie_;  // values: indices into tokens_
  PieceTrie normalized_trie_;
  std::int64_t size_ = 0;
};

/// Reads the `added_tokens` of `json`, a tokenizer.json, if it has any. Throws TokenizerError.
std::vector<AddedToken> read_added_tokens(const ConfigReader& json);

}  // namespace hooked::text
