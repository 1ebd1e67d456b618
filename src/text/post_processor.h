#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/config_reader.h"
#include "hooked/text/tokenizer.h"

namespace hooked::text {

/// The tokens of a text before their spellings are looked up.
struct TokenList {
  std::string_view original;  ///< the text
  std::vector<std::int64_t> ids;
  std::vector<TextSpan> offsets;
  /// The text of tokens that is not the spelling of their id: [place in ids].
  std::unordered_map<std::size_t, std::string> texts;

  /// Puts tokens that stand for no part of the text around the others.
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

  /// Whether offsets are trimmed, for which the texts of tokens are needed.
  virtual bool trims_offsets() const noexcept { return false; }

  /// The ids of the special tokens that may be added.
  virtual std::vector<std::int64_t> special_ids() const { return {}; }
};

/// Reads a `post_processor` of a tokenizer.json. Throws TokenizerError.
std::unique_ptr<const PostProcessor> read_post_processor(const ConfigReader& json);

/// A post-processor that puts these ids around a text when special tokens are asked for.
std::unique_ptr<const PostProcessor> make_special_token_adder(std::vector<std::int64_t> before,
                                                              std::vector<std::int64_t> behind);

}  // namespace hooked::text
