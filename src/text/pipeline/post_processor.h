#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/config_reader.h"
#include "hooked/text/encoding.h"

namespace hooked::text {

/// The tokens of a text before their spellings are looked up.
struct TokenList {
  std::string_view original;  ///< the text
  std::vector<std::int64_t> ids;
  std::vector<TextSpan> offsets;
  /// The text of tokens whose text differs from their id's spelling: [index in ids].
  std::unordered_map<std::size_t, std::string> texts;

  /// Puts tokens that cover no part of the text around the others.
  void surround(const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& after);
};

/// Gives the spelling of an id.
using Spelling = std::function<const std::string&(std::int64_t)>;

/// The last step of encoding: changes the tokens of a text. Immutable.
class PostProcessor {
 public:
  enum class SpecialTokens : std::uint8_t { leave_out, add };

  virtual ~PostProcessor() = default;
  virtual void apply(TokenList& tokens, SpecialTokens special, const Spelling& spelling) const = 0;

  /// Whether offsets are trimmed, which needs the texts of tokens.
  virtual bool trims_offsets() const noexcept { return false; }

  /// The special tokens that it puts around a text, without a reason; nothing if it does not say anything
  /// about them.
  virtual std::optional<TokensAround> around() const { return std::nullopt; }
};

/// Reads a `post_processor` of a tokenizer.json. Throws TokenizerError.
std::unique_ptr<const PostProcessor> read_post_processor(const ConfigReader& json);

/// `first`, which may be null, then these ids around the text if special tokens are requested.
std::unique_ptr<const PostProcessor> with_tokens_around(std::unique_ptr<const PostProcessor> first,
                                                        const TokensAround& around);

}  // namespace hooked::text
