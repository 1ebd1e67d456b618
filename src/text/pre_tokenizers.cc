#include "text/pre_tokenizers.h"

#include "text/byte_characters.h"
#include "text/unicode.h"

namespace hooked {

void PrefixBlank::apply(PreTokenized& text) const {
  bool needed = false;
  for (const auto& piece : text.pieces()) needed |= piece.id < 0 && text.text_of(piece).front() != ' ';
  if (!needed) return;
  text.rewrite([](const NormalizedString& from, TextSpan piece, NormalizedString& into) {
    if (from.text()[piece.begin] != ' ') {
      const auto first = first_char(from.text().substr(piece.begin))->bytes;
      into.append(" ", from.origin({piece.begin, piece.begin + first}));
    }
    into.append(from, piece);
  });
}

void ByteSpelling::apply(PreTokenized& text) const {
  text.rewrite([](const NormalizedString& from, TextSpan piece, NormalizedString& into) {
    const auto bytes = from.text();
    std::string spelled;
    for (auto at = piece.begin; at < piece.end; ++at) {
      spelled.clear();
      append_utf8(spelled, byte_character(static_cast<unsigned char>(bytes[at])));
      into.append(spelled, from.origin({at, at + 1}));
    }
  });
}

void SplitAtPattern::apply(PreTokenized& text) const {
  text.split_at(options_.behavior, [&](std::string_view piece) {
    auto matches = pattern_.cut(piece);
    if (options_.invert) {
      for (auto& match : matches) match.matches = !match.matches;
    }
    return matches;
  });
}

void SplitAtCharacters::apply(PreTokenized& text) const {
  text.split_at(behavior_, [&](std::string_view piece) { return match_characters(piece, is_delimiter_); });
}

void SplitAtCharacter::apply(PreTokenized& text) const {
  text.split_at(DelimiterBehavior::removed, [&](std::string_view piece) {
    return match_characters(piece, [&](char32_t c) { return c == delimiter_; });
  });
}

void WhitespacePreTokenizer::apply(PreTokenized& text) const {
  text.split([](std::string_view piece, auto&& emit) {
    std::size_t begin = 0;
    std::size_t at = 0;
    auto previous = CharClass::space;
    for_each_character(piece, [&](char32_t c, std::string_view bytes) {
      const auto current = char_class(c);
      if (current != previous) {
        if (previous != CharClass::space) emit(TextSpan{begin, at});
        begin = at;
      }
      previous = current;
      at += bytes.size();
    });
    if (previous != CharClass::space) emit(TextSpan{begin, at});
  });
}

Metaspace::Metaspace(Options options) : options_(options) { append_utf8(replacement_, options.replacement); }

void Metaspace::apply(PreTokenized& text) const {
  text.rewrite([&](const NormalizedString& from, TextSpan piece, NormalizedString& into) {
    const auto whole = from.text();
    const auto first = first_char(whole.substr(piece.begin));
    const auto origin = from.origin({piece.begin, piece.begin + first->bytes});
    const bool prepend =
        options_.prepend == Prepend::always || (options_.prepend == Prepend::first && origin.begin == 0);
    if (prepend && first->code_point != ' ' && first->code_point != options_.replacement) {
      into.append(replacement_, origin);
    }
    for (auto at = piece.begin; at < piece.end;) {
      if (whole[at] == ' ') {
        into.append(replacement_, from.origin({at, at + 1}));
        ++at;
        continue;
      }
      auto end = whole.find(' ', at);
      if (end > piece.end) end = piece.end;  // npos too
      into.append(from, {at, end});
      at = end;
    }
  });
  if (!options_.split) return;
  text.split_at(DelimiterBehavior::merged_with_next, [&](std::string_view piece) {
    return match_characters(piece, [&](char32_t c) { return c == options_.replacement; });
  });
}

void FixedLength::apply(PreTokenized& text) const {
  text.split([&](std::string_view piece, auto&& emit) {
    std::size_t begin = 0;
    std::size_t at = 0;
    std::size_t characters = 0;
    for_each_character(piece, [&](char32_t, std::string_view bytes) {
      at += bytes.size();
      if (++characters == length_) {
        emit(TextSpan{begin, at});
        begin = at;
        characters = 0;
      }
    });
    emit(TextSpan{begin, at});
  });
}

}  // namespace hooked
