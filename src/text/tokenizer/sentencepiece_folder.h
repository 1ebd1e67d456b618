#pragma once

#include <string_view>

#include "text/files/side_files.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/tokenizer/tokenizer_rules.h"

namespace hooked::text {

/// The tokenizer of a SentencePiece file's bytes, used as the class in `beside` uses it: that decides the ids
/// of its pieces, the special tokens, and what is put around a text. If `beside` is empty, it is used as the
/// package `sentencepiece` uses it, and its control pieces are special tokens. Throws TokenizerError, also
/// for a class that numbers the pieces in another, unknown way.
Tokenizer::Rules read_sentencepiece(std::string_view bytes, std::string_view where, const SideFiles& beside);

}  // namespace hooked::text
