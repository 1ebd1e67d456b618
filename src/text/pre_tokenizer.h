#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "hooked/text/tokenizer.h"

namespace hooked {

/// How a text is cut into words before the vocabulary is asked.
enum class PreTokenizerKind : std::uint8_t {
  none,              ///< the whole text is one word
  whitespace,        ///< `\w+|[^\w\s]+`: words and runs of punctuation
  whitespace_split,  ///< at white space only
};

/// The words of valid UTF-8 `text` in order, as bytes of it. None is empty.
std::vector<TextSpan> split_words(std::string_view text, PreTokenizerKind kind);

}  // namespace hooked
