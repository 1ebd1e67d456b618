#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hooked/text/tokenizer.h"

namespace hooked::text {

/// The text of a row of tokens to which more are added.
///
/// Decoders look at neighbours (blanks before words, bytes of one character in several tokens), so a token's
/// text is the difference of two decodings that begin a few tokens before it.
class TextStream {
 public:
  /// `context` are the tokens before the first one of the stream. Their text is not part of it.
  TextStream(Tokenizer tokenizer, std::vector<std::int64_t> context);

  /// What `id` adds to the text, together with that of earlier tokens which was held back; empty while the
  /// text ends in the middle of a character.
  std::string add(std::int64_t id);

  /// What is still held back: unfinished characters, as U+FFFD.
  std::string finish();

 private:
  std::string decoded(std::size_t begin, std::size_t end) const;

  Tokenizer tokenizer_;
  std::vector<std::int64_t> ids_;
  std::size_t context_ = 0;  // decodings begin here
  std::size_t emitted_ = 0;  // ids before this one are in the text
};

}  // namespace hooked::text
