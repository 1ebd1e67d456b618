#pragma once

#include <string_view>
#include <vector>

#include "text/model/added_tokens.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/tokenizer/tokenizer_rules.h"

namespace hooked::text {

/// The pipeline of a model: ids and decoded texts equal those of the package `sentencepiece` for the text
/// between the `added` tokens, which are found in the text itself. Throws TokenizerError, with `where` as
/// its place, for a model that the package also refuses (no or several unknown pieces, empty or repeated
/// ones, missing bytes), for scores that are not finite, and for rules or pieces out of bounds or not
/// UTF-8.
Tokenizer::Rules sentencepiece_rules(const SentencePieceModel& model, std::vector<AddedToken> added,
                                     std::string_view where);

}  // namespace hooked::text
