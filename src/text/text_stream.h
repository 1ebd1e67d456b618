#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hooked/text/tokenizer.h"

namespace hooked {

/// The text of a row of tokens that is still growing.
///
/// Decoders look at neighbours (blanks before words, bytes of one character in several tokens), so a token's
/// text is read off two decodings that both begin with the token before it.
class TextStream {
 public:
  /// `context` are tokens before the first one of the stream; their text is not repeated.
  TextStream(Tokenizer tokenizer, std::vector<std::int64_t> context);

  /// What `id` adds to the text, together with earlier tokens that waited for it; empty while the text ends
  /// in the middle of a character.
  std::string add(std::int64_t id);

  /// What was still waiting: unfinished characters, as U+FFFD.
  std::string finish();

 private:
  std::string decoded(std::size_t begin, std::size_t end) const;

  Tokenizer tokenizer_;
  std::vector<std::int64_t> ids_;
  std::size_t context_ = 0;  // decodings begin here
  std::size_t told_ = 0;     // ids before this one are in the text
};

}  // namespace hooked
