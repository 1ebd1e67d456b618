#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hooked/text/tokenizer.h"

namespace hooked::text {

/// The text of a row of tokens to which more are added. Returned text is final, is UTF-8, and adds up to what
/// decoding all tokens gives after the text of the context.
class TextStream {
 public:
  /// `context` are the tokens before the first one of the stream. Their text is not part of it, except for
  /// what the first tokens of the stream can still change, such as a character that the context begins.
  TextStream(Tokenizer tokenizer, std::vector<std::int64_t> context);

  /// The text that `id` adds and that no later token can change; may be empty.
  std::string add(std::int64_t id);

  /// The text that is still withheld: unfinished characters, as U+FFFD.
  std::string finish();

 private:
  enum class Follows : std::uint8_t { more, nothing };

  std::string decoded(std::size_t begin, std::size_t end, Follows follows) const;
  std::string hand_out(std::string_view text);
  void move_window();

  Tokenizer tokenizer_;
  std::vector<std::int64_t> ids_;
  // Decoding everything for each token takes quadratic time. `window_` and `settled_` are places where no
  // later token changes the text before them, so that decoding from there gives the same text.
  std::size_t window_ = 0;        // decodings begin with this token
  std::size_t settled_ = 0;       // all text before this token was returned, or is the context's
  std::size_t bytes_before_ = 0;  // of the decoding: the text of tokens window_ to settled_
  std::size_t bytes_out_ = 0;     // of the decoding, after these: returned
};

}  // namespace hooked::text
