#pragma once

#include <string_view>

#include "text/files/side_files.h"
#include "text/tokenizer/tokenizer_rules.h"

namespace hooked::text {

/// BERT's vocab.txt: a piece on each line, with the line's number as its id. Options, special tokens and what
/// is put around a text come from the class in `beside`. Throws TokenizerError.
Tokenizer::Rules read_word_list(std::string_view vocab, std::string_view name, const SideFiles& beside);

/// GPT-2's pair: a vocabulary as a JSON object, and ranked merges, one a line. Throws TokenizerError.
Tokenizer::Rules read_vocabulary_and_merges(std::string_view vocab, std::string_view merges,
                                            std::string_view name, const SideFiles& beside);

}  // namespace hooked::text
