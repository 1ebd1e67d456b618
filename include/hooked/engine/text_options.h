#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hooked/core/export.h"
#include "hooked/text/tokenizer.h"

namespace HOOKED_EXPORT hooked {

/// On which side rows shorter than the longest are padded.
enum class PaddingSide : std::uint8_t { left, right };

/// Which tokens are put around a text.
enum class PrependBos : std::uint8_t {
  /// What the model's own files put there (Tokenizer::around()). If they say nothing, a causal model with
  /// one stack gets a BOS token in front, as in TransformerLens, unless the text begins with its
  /// spelling.
  by_default,
  yes,      ///< a BOS token in front, and whatever else the files put there
  no,       ///< what the files put there, without the BOS token
  file,     ///< exactly what the files put there: the ids of `AutoTokenizer`
  nothing,  ///< no token: for text that spells its own special tokens, as that of chat templates does
};

/// How text becomes a model's tokens. For designated initialisers.
struct TextOptions {
  /// Which tokens are put around it. `yes` throws TokenizerError if the tokenizer has no BOS token.
  PrependBos prepend_bos = PrependBos::by_default;
  /// How the spelling of an added token (`<bos>`) inside the text is read.
  AddedTokensInText added_tokens = AddedTokensInText::as_tokens;
  PaddingSide padding_side = PaddingSide::right;  ///< for batches of texts
};

/// A token of a text.
struct TextPiece {
  std::int64_t id;   ///< its id in the vocabulary
  std::string text;  ///< in readable form, as from Tokenizer::printable_piece
  TextSpan span;     ///< its place in the text, in bytes; [0, 0) for a token that was added to it
};

}  // namespace hooked
