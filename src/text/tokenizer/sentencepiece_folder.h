#pragma once

#include <string_view>

#include "text/files/side_files.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/tokenizer/tokenizer_rules.h"

namespace hooked::text {

/// The tokenizer of a SentencePiece file's bytes, used as the class in `beside` uses it: which ids its pieces
/// have, which tokens are special, what is put around a text. Without files beside it, it is used as the
/// package `sentencepiece` uses it, and its control pieces are special tokens. Throws TokenizerError, and for
/// a class whose ids are not those of the file and not known.
Tokenizer::Rules read_sentencepiece(std::string_view bytes, std::string_view where, const SideFiles& beside);

}  // namespace hooked::text
