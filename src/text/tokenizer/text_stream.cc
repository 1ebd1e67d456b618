#include "text/tokenizer/text_stream.h"

#include <algorithm>
#include <span>
#include <utility>

namespace hooked::text {

TextStream::TextStream(Tokenizer tokenizer, std::vector<std::int64_t> context)
    : tokenizer_(std::move(tokenizer)), ids_(std::move(context)) {
  hand_out(decoded(0, ids_.size(), Follows::more));
  move_window();
}

std::string TextStream::decoded(std::size_t begin, std::size_t end, Follows follows) const {
  return tokenizer_.decode(std::span(ids_).subspan(begin, end - begin),
                           {.skip_special_tokens = true, .more_follow = follows == Follows::more});
}

std::string TextStream::hand_out(std::string_view text) {
  const auto out = text.substr(std::min(text.size(), bytes_before_ + bytes_out_));
  bytes_out_ += out.size();
  return std::string(out);
}

// A window begins where no text is withheld, and with text before that: decoders treat the beginning of a
// text specially, for example by removing its first blank.
void TextStream::move_window() {
  const auto last = ids_.size();
  const auto text = decoded(settled_, last, Follows::nothing);
  if (text.empty() || decoded(settled_, last, Follows::more) != text) return;
  window_ = std::exchange(settled_, last);
  bytes_before_ = text.size();
  bytes_out_ = 0;
}

std::string TextStream::add(std::int64_t id) {
  ids_.push_back(id);
  auto text = hand_out(decoded(window_, ids_.size(), Follows::more));
  move_window();
  return text;
}

std::string TextStream::finish() { return hand_out(decoded(window_, ids_.size(), Follows::nothing)); }

}  // namespace hooked::text
