#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hooked/core/export.h"
#include "hooked/text/tokenizer.h"

namespace HOOKED_EXPORT hooked {

/// On which side rows that are shorter than the longest are filled up.
enum class PaddingSide : std::uint8_t { left, right };

/// How text becomes a model's tokens. For designated initialisers.
struct TextOptions {
  /// Whether a BOS token comes first; absent: as the model's family was trained, and none before a text that
  /// begins with its spelling. Throws TokenizerError when it is asked for and the tokenizer names none.
  std::optional<bool> prepend_bos = std::nullopt;
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
