#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hooked/core/export.h"
#include "hooked/text/tokenizer.h"

namespace HOOKED_EXPORT hooked {

/// On which side rows that are shorter than the longest are filled up.
enum class PaddingSide : std::uint8_t { left, right };

/// Which tokens stand around a text.
enum class PrependBos : std::uint8_t {
  /// What the model's own files put there (Tokenizer::around()). Where they say nothing, a causal model of
  /// one
  /// stack gets a BOS token in front, as in TransformerLens, unless the text begins with its spelling.
  by_default,
  yes,      ///< a BOS token in front, and what else the files put there
  no,       ///< what the files put there, without the BOS token
  file,     ///< what the files put there, and nothing else: the ids of `AutoTokenizer`
  nothing,  ///< no token: for text that spells its special tokens itself, as that of chat templates does
};

/// How text becomes a model's tokens. For designated initialisers.
struct TextOptions {
  /// Which tokens stand around it. `yes` throws TokenizerError where the tokenizer has no BOS token.
  PrependBos prepend_bos = PrependBos::by_default;
  /// What the spelling of an added token (`<bos>`) inside the text is.
  AddedTokensInText added_tokens = AddedTokensInText::as_tokens;
  PaddingSide padding_side = PaddingSide::right;  ///< of batches of texts
};

/// A token of a text.
struct TextPiece {
  std::int64_t id;   ///< its number in the vocabulary
  std::string text;  ///< for people to read, as Tokenizer::printable_piece
  TextSpan span;     ///< where it stands in the text, bytes; [0, 0) for a token that was added to it
};

}  // namespace hooked
