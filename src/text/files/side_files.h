#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/config_reader.h"
#include "core/json.h"
#include "text/model/added_tokens.h"
#include "text/model/vocabulary.h"

namespace hooked::text {

/// A special token by its key in tokenizer_config.json; the tokenizer's class has it unless a file says
/// otherwise.
struct DefaultToken {
  std::string_view key;      ///< `bos_token`
  std::string_view content;  ///< `<s>`
  bool lstrip = false;       ///< includes the white space before it
  bool normalized = false;   ///< is searched for in the normalized text
};

/// The keys of special tokens, in the order in which transformers adds the tokens.
inline constexpr std::string_view kTokenKeys[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                  "pad_token", "cls_token", "mask_token"};

/// The value at `key`, or null if `object` is not an object or lacks the key.
const Json* member(const Json& object, std::string_view key);

/// The name of a class of transformers, without `Fast` at its end.
std::string without_fast(std::string name);

/// A token as an entry of `added_tokens`; `token` is a string, or an object with its content and flags.
/// Throws TokenizerError.
Json token_entry(const Json& token, std::string_view where);

/// How a class of transformers gets its added tokens.
struct ClassTokens {
  enum class Start : std::uint8_t {
    those_of_file,    ///< it begins with those of the tokenizer.json
    nothing,          ///< it begins with a vocabulary alone, and adds the file's tokens like all others
    listed_as_pieces  ///< the listed ids from the end of the vocabulary on are in it
  };
  /// Where a class puts its extra tokens if special_tokens_map.json lists some.
  enum class Extras : std::uint8_t { left_out, after_listed, before_listed, alone };

  std::span<const DefaultToken> defaults{};
  std::vector<std::string> extras{};  ///< of the class
  Extras extras_stand = Extras::left_out;
  std::optional<std::vector<Json>> vocabulary_extras{};  ///< of SentencePiece, replacing the map's
  Start start = Start::those_of_file;
  bool readds_special = false;  ///< special tokens lose their flags at the end
};

/// Added tokens with their ids, and what a user should know about them.
struct NumberedTokens {
  Json list = Json::array();              ///< as the `added_tokens` of a tokenizer.json
  std::vector<std::string> added{};       ///< those that the tokenizer.json lacks
  std::vector<std::string> renumbered{};  ///< those whose ids differ from a file's

  /// The list as values.
  std::vector<AddedToken> values() const;
  /// The renumbered ones as a note, if there are any.
  std::vector<std::string> notes() const;
};

/// What `AutoTokenizer` knows before it chooses a class.
struct ClassHints {
  std::string named{};           ///< by tokenizer_config.json, else by config.json; empty: by neither
  std::string model_type{};      ///< of config.json; empty if there is none
  bool has_remote_code = false;  ///< tokenizer_config.json names code of its own
  bool byte_level = false;       ///< tokenizer.json has a step ByteLevel
};

/// The files next to a vocabulary without a tokenizer.json: what transformers knows about it in addition to
/// its pieces. Each may be absent.
class SideFiles {
 public:
  /// Their names: tokenizer_config.json, special_tokens_map.json, added_tokens.json.
  static constexpr std::array<std::string_view, 3> kNames = {"tokenizer_config.json",
                                                             "special_tokens_map.json", "added_tokens.json"};

  /// No files.
  SideFiles() = default;

  /// Reads the files of `folder`, and its config.json about the tokenizer. Throws TokenizerError, IoError.
  static SideFiles read(const std::filesystem::path& folder);
  /// Uses only a tokenizer_config.json of that text, which errors call `name`. Throws TokenizerError.
  static SideFiles parse(std::string_view config, std::string_view name);

  /// The class of transformers that reads the vocabulary, without `Fast`: the `tokenizer_class` of
  /// tokenizer_config.json, else the usual class for this model_type; empty if neither is known.
  const std::string& tokenizer_class() const noexcept { return class_; }

  /// What decides which class reads a tokenizer.json; the caller sets `byte_level`.
  const ClassHints& hints() const noexcept { return hints_; }

  /// Whether transformers puts another rule for words into a tokenizer.json that was made for Mistral's
  /// models, if its file asks for it (`fix_mistral_regex`).
  bool may_have_mistral_words() const noexcept { return mistral_words_; }

  /// Refuses the folder's tokenizer_class, or the class `name`.
  [[noreturn]] void refuse_class(std::string_view what) const { refuse_class(class_, what); }
  [[noreturn]] void refuse_class(std::string_view name, std::string_view what) const;

  /// The options in tokenizer_config.json, or null.
  const ConfigReader* options() const noexcept { return options_ ? &*options_ : nullptr; }

  /// Whether tokenizer_config.json says if a text gets a BOS token, or that it gets an EOS token.
  bool names_ends() const;
  /// Both keys and their file, for messages.
  std::string around_keys() const;

  /// A boolean option, `fallback` where it is absent or null.
  bool flag(std::string_view key, bool fallback) const;

  /// The content of the token that `key` names, or nothing.
  std::optional<std::string> token(std::string_view key, std::span<const DefaultToken> defaults) const;

  /// The tokens that the files list, in that order, each with its id. Without a list in
  /// tokenizer_config.json, this includes the tokens `own` of a tokenizer.json.
  std::vector<Json> listed(const std::vector<Json>& own) const;

  /// All added tokens of a tokenizer.json, numbered as `AutoTokenizer` does: its own, those that the files
  /// list, and the special ones that the files or the class name. Throws TokenizerError.
  NumberedTokens number(const Json& document, const ClassTokens& tokens) const;

  /// The same for a vocabulary of another form.
  NumberedTokens number(const Vocabulary& vocabulary, const ClassTokens& tokens) const;

  /// What tokenizer_config.json must contain so that tokenizer_class() is known without config.json, or
  /// nothing if it says so already.
  std::optional<std::string> config_with_class() const;
  /// The same for a tokenizer.json that is used as by `tokenizer_class`; empty if it is used as it is.
  std::optional<std::string> config_with_class(std::string_view tokenizer_class) const;

 private:
  std::optional<Json> named(std::string_view key, std::span<const DefaultToken> defaults) const;
  class Numbering;
  NumberedTokens number(const std::vector<Json>& own, Numbering numbering, const ClassTokens& tokens) const;
  /// The keys of special tokens, in the order in which transformers adds the tokens.
  std::vector<std::string> token_keys(std::span<const DefaultToken> defaults) const;
  /// The tokens that the keys of special tokens name.
  std::vector<Json> named_tokens(std::span<const DefaultToken> defaults) const;
  std::vector<Json> extra_tokens(const ClassTokens& tokens) const;
  /// The list of tokens at `key` of a file, or nothing if there is none.
  std::optional<std::vector<Json>> token_list(const Json& file, std::string_view key) const;
  /// Whether a token of added_tokens.json is special.
  bool is_special(const std::string& content) const;
  /// Whether special_tokens_map.json and added_tokens.json are ignored, as transformers does.
  bool lists_added() const { return config_.contains("added_tokens_decoder"); }
  void name_class(const Json& config);

  std::string where_ = "tokenizer_config.json";  // for messages
  Json config_ = Json::object();
  Json special_ = Json::object();
  Json added_ = Json::object();
  std::optional<ConfigReader> options_;
  std::string class_;
  bool class_named_ = false;  // by tokenizer_config.json
  ClassHints hints_;
  bool mistral_words_ = false;
};

}  // namespace hooked::text
