#include "text/pre_tokenizer.h"

#include "text/unicode.h"

namespace hooked {

std::vector<TextSpan> split_words(std::string_view text, PreTokenizerKind kind) {
  if (text.empty()) return {};
  if (kind == PreTokenizerKind::none) return {{0, text.size()}};

  std::vector<TextSpan> words;
  auto previous = CharClass::space;
  for (std::size_t at = 0; at < text.size();) {
    const auto decoded = first_char(text.substr(at));
    const std::size_t bytes = decoded ? decoded->bytes : 1;
    auto current = decoded ? char_class(decoded->code_point) : CharClass::other;
    if (kind == PreTokenizerKind::whitespace_split && current != CharClass::space) current = CharClass::word;
    if (current != CharClass::space) {
      if (current == previous) {
        words.back().end = at + bytes;
      } else {
        words.push_back({at, at + bytes});
      }
    }
    previous = current;
    at += bytes;
  }
  return words;
}

}  // namespace hooked
