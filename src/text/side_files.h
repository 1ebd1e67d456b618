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
#include "text/added_tokens.h"
#include "text/vocabulary.h"

namespace hooked::text {

/// A special token by the key that names it in tokenizer_config.json, as the class of the tokenizer has it
/// where no file says otherwise.
struct DefaultToken {
  std::string_view key;      ///< `bos_token`
  std::string_view content;  ///< `<s>`
  bool lstrip = false;       ///< takes the white space before it
};

/// The files beside a vocabulary without a tokenizer.json: what transformers knows about it besides its
/// pieces. Each may be absent.
class SideFiles {
 public:
  /// Their names: tokenizer_config.json, special_tokens_map.json, added_tokens.json.
  static constexpr std::array<std::string_view, 3> kNames = {"tokenizer_config.json",
                                                             "special_tokens_map.json", "added_tokens.json"};

  /// No files.
  SideFiles() = default;

  /// Reads those of `folder`, and the `model_type` of its config.json. Throws TokenizerError, IoError.
  static SideFiles read(const std::filesystem::path& folder);

  /// The class of transformers that reads the vocabulary, without `Fast`: the `tokenizer_class` of
  /// tokenizer_config.json, else that of models of this model_type; empty where neither is known.
  const std::string& tokenizer_class() const noexcept { return class_; }

  /// Refuses the folder's tokenizer_class.
  [[noreturn]] void refuse_class(std::string_view what) const;

  /// The options in tokenizer_config.json, or null.
  const ConfigReader* options() const noexcept { return options_ ? &*options_ : nullptr; }

  /// A boolean option, `fallback` where it is absent or null.
  bool flag(std::string_view key, bool fallback) const;

  /// The content of the token that `key` names, or nothing.
  std::optional<std::string> token(std::string_view key, std::span<const DefaultToken> defaults) const;

  /// All added tokens: those that the files list with their ids, and the special ones that they or `defaults`
  /// name, which get the next ids where the vocabulary lacks them. As the `added_tokens` of a tokenizer.json.
  Json added_tokens(const Vocabulary& vocabulary, std::span<const DefaultToken> defaults) const;

  /// The same as values. Throws TokenizerError.
  std::vector<AddedToken> read_added(const Vocabulary& vocabulary,
                                     std::span<const DefaultToken> defaults) const;

  /// What tokenizer_config.json must hold so that tokenizer_class() is known without config.json, or nothing
  /// where it says so already.
  std::optional<std::string> config_with_class() const;

 private:
  std::optional<Json> named(std::string_view key, std::span<const DefaultToken> defaults) const;

  std::string where_ = "tokenizer_config.json";  // for messages
  Json config_ = Json::object();
  Json special_ = Json::object();
  Json added_ = Json::object();
  std::optional<ConfigReader> options_;
  std::string class_;
  bool class_named_ = false;  // by tokenizer_config.json
};

}  // namespace hooked::text
