#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/text/encoding.h"
#include "text/strings/pattern.h"
#include "text/unicode/unicode.h"

namespace hooked::text {

/// A part of a text that records, after any number of changes, which bytes of the original each of its bytes
/// came from.
///
/// Nothing is copied before the first change. The original must outlive it.
class NormalizedString {
 public:
  /// The bytes `part` of `original`, on character boundaries.
  NormalizedString(std::string_view original, TextSpan part) : original_(original), part_(part) {}

  /// The text as it is now: valid UTF-8.
  std::string_view text() const noexcept {
    return changed_ ? std::string_view(text_) : original_.substr(part_.begin, part_.end - part_.begin);
  }

  /// The whole text that this is a part of.
  std::string_view original() const noexcept { return original_; }

  bool changed() const noexcept { return changed_; }

  /// The bytes of the original that the bytes `span` of text(), not empty, came from.
  TextSpan origin(TextSpan span) const noexcept;

  /// Where the part began in the original.
  std::size_t origin_begin() const noexcept { return part_.begin; }

  /// Replaces the whole text by `changes`; the first `dropped` characters of the text are removed.
  void transform(std::span<const Change> changes, std::size_t dropped = 0);

  /// Replaces every match by `content`; matches must be in order and must not overlap.
  void replace(std::span<const Match> matches, std::string_view content);

  /// Puts `content` before the text, belonging to its first character; an empty text stays empty.
  void prepend(std::string_view content);

  /// Appends `bytes`; all of them came from the bytes `origin` of the original.
  void append(std::string_view bytes, TextSpan origin);

  /// Appends the bytes `span` of `other`, which is a part of the same original.
  void append(const NormalizedString& other, TextSpan span);

  /// A part of `original` that has none of its bytes yet, to append to. `bytes` is the expected size.
  static NormalizedString empty(std::string_view original, std::size_t bytes);

 private:
  TextSpan alignment(std::size_t byte) const noexcept;
  void write_out();

  std::string_view original_;
  TextSpan part_;
  bool changed_ = false;
  std::string text_;                  // after the first change
  std::vector<TextSpan> alignments_;  // [byte of text_]: the bytes of the original it came from
};

}  // namespace hooked::text
