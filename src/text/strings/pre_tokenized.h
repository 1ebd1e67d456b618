#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "text/strings/normalized_string.h"
#include "text/strings/pattern.h"

namespace hooked::text {

/// A part of a text on its way to tokens: an added token, or (id -1) a word or text still to be cut.
struct Piece {
  TextSpan span;  ///< bytes of the whole normalized text; never empty
  std::int64_t id = -1;
};

/// What happens to a delimiter when a text is cut, by the names of tokenizer.json.
enum class DelimiterBehavior : std::uint8_t {
  removed,
  isolated,              ///< a piece of its own
  merged_with_previous,  ///< the end of the piece before it
  merged_with_next,      ///< the beginning of the piece after it
  contiguous,            ///< a run of them is one piece
};

/// A normalized text and the pieces that it has been cut into so far.
class PreTokenized {
 public:
  PreTokenized(NormalizedString text, std::vector<Piece> pieces)
      : text_(std::move(text)), pieces_(std::move(pieces)) {}

  const NormalizedString& text() const noexcept { return text_; }
  const std::vector<Piece>& pieces() const noexcept { return pieces_; }

  std::string_view text_of(const Piece& piece) const noexcept {
    return text_.text().substr(piece.span.begin, piece.span.end - piece.span.begin);
  }

  /// Cuts every piece that is not an added token: `cut(text, emit)` calls `emit({begin, end})` with the parts
  /// to keep, in order, as byte ranges of the piece. Empty parts are dropped.
  template <class Cut>
  void split(Cut&& cut) {
    std::vector<Piece> pieces;
    pieces.reserve(pieces_.size());
    for (const auto& piece : pieces_) {
      if (piece.id >= 0) {
        pieces.push_back(piece);
        continue;
      }
      const auto base = piece.span.begin;
      cut(text_of(piece), [&](TextSpan part) {
        if (part.begin < part.end) pieces.push_back({{base + part.begin, base + part.end}});
      });
    }
    pieces_ = std::move(pieces);
  }

  /// Cuts every piece that is not an added token at the matches that `find(text)` returns.
  template <class Find>
  void split_at(DelimiterBehavior behavior, Find&& find) {
    split([&](std::string_view text, auto&& emit) {
      for (const auto& part : parts_to_keep(find(text), behavior)) emit(part);
    });
  }

  /// Rewrites every piece that is not an added token: `write(text, piece, into)` appends to `into` the
  /// replacement of the bytes `piece` of `text`.
  template <class Write>
  void rewrite(Write&& write) {
    auto into = NormalizedString::empty(original_, text_.text().size() + pieces_.size());
    for (auto& piece : pieces_) {
      const auto begin = into.text().size();
      if (piece.id >= 0) {
        into.append(text_, piece.span);
      } else {
        write(text_, piece.span, into);
      }
      piece.span = {begin, into.text().size()};
    }
    text_ = std::move(into);
  }

 private:
  static std::vector<TextSpan> parts_to_keep(std::vector<Match> matches, DelimiterBehavior behavior);

  NormalizedString text_;
  std::vector<Piece> pieces_;
  std::string_view original_ = text_.original();
};

/// The characters of `text` that `is_delimiter` accepts as matches, and the text between them.
template <class IsDelimiter>
std::vector<Match> match_characters(std::string_view text, IsDelimiter&& is_delimiter) {
  std::vector<Match> parts;
  std::size_t end = 0;
  std::size_t at = 0;
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (is_delimiter(c)) {
      if (end < at) parts.push_back({{end, at}, false});
      end = at + bytes.size();
      parts.push_back({{at, end}, true});
    }
    at += bytes.size();
  });
  if (end < at) parts.push_back({{end, at}, false});
  return parts;
}

}  // namespace hooked::text
