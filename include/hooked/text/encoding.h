#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// Bytes [begin, end) of a UTF-8 text.
struct TextSpan {
  std::size_t begin = 0;  ///< the first byte
  std::size_t end = 0;    ///< one past the last
  bool operator==(const TextSpan&) const = default;
};

/// A text as tokens: three lists of equal length.
struct Encoding {
  std::vector<std::int64_t> ids;    ///< their numbers in the vocabulary
  std::vector<std::string> pieces;  ///< the vocabulary's spelling of each id
  std::vector<TextSpan>
      offsets;  ///< where each token is in the text; [0, 0) for tokens that were added to it
};

/// How the spelling of an added token (`<bos>`) inside a text is read.
enum class AddedTokensInText : std::uint8_t {
  as_tokens,        ///< that token
  special_as_text,  ///< ordinary text if the token is special, else that token
  as_text,          ///< ordinary text
};

/// How a text is encoded.
struct EncodeOptions {
  /// Whether to put the tokens of Tokenizer::around() around the text.
  bool add_special_tokens = false;
  AddedTokensInText added_tokens = AddedTokensInText::as_tokens;  ///< how their spelling is read
};

/// How ids are decoded.
struct DecodeOptions {
  bool skip_special_tokens = false;  ///< leave special tokens out of the text
  /// Whether unknown further ids follow: then only the text that does not depend on them is returned. The
  /// text of all ids begins with it.
  bool more_follow = false;
};

/// The tokens that a tokenizer's files put around a text.
struct TokensAround {
  std::vector<std::int64_t> before;  ///< before the text, in order
  std::vector<std::int64_t> after;   ///< after the text, in order
  std::string why;                   ///< the file and the key that say so, for people to read
  bool operator==(const TokensAround&) const = default;
};

}  // namespace hooked
