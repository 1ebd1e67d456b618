#include "text/strings/normalized_string.h"

#include <algorithm>
#include <utility>

#include "core/utf8.h"

namespace hooked::text {
TextSpan NormalizedString::alignment(std::size_t byte) const noexcept {
  if (changed_) return alignments_[byte];
  // A byte of an unchanged text came from the whole character that contains it.
  auto begin = part_.begin + byte;
  while (begin > part_.begin && continues_character(original_[begin])) --begin;
  auto end = part_.begin + byte + 1;
  while (end < part_.end && continues_character(original_[end])) ++end;
  return {begin, end};
}

TextSpan NormalizedString::origin(TextSpan span) const noexcept {
  return {alignment(span.begin).begin, alignment(span.end - 1).end};
}

void NormalizedString::write_out() {
  if (changed_) return;
  text_ = text();
  alignments_.reserve(text_.size());
  for (std::size_t at = 0; at < text_.size();) {
    const auto bytes = first_char(std::string_view(text_).substr(at))->bytes;
    alignments_.insert(alignments_.end(), bytes, {part_.begin + at, part_.begin + at + bytes});
    at += bytes;
  }
  changed_ = true;
}

void NormalizedString::transform(std::span<const Change> changes, std::size_t dropped) {
  const auto before = text();
  if (before.empty()) return;
  write_out();
  // Characters that come from no part of the original (inserted before everything) are out of a
  // transformation's reach: the tokenizers package leaves them where they are, and ids depend on it.
  const auto first =
      static_cast<std::size_t>(std::find_if(alignments_.begin(), alignments_.end(),
                                            [](const TextSpan& span) { return span.begin != span.end; }) -
                               alignments_.begin());
  std::string result = text_.substr(0, first);
  std::vector<TextSpan> alignments(alignments_.begin(),
                                   alignments_.begin() + static_cast<std::ptrdiff_t>(first));
  result.reserve(text_.size());
  alignments.reserve(text_.size());

  std::size_t at = first;
  const auto skip = [&](std::size_t characters) {
    for (; characters > 0 && at < text_.size(); --characters) {
      at += first_char(std::string_view(text_).substr(at))->bytes;
    }
  };
  skip(dropped);
  for (const auto& [character, change] : changes) {
    TextSpan span{part_.begin, part_.begin};
    if (change <= 0) {
      span = alignments_[std::min(at, text_.size() - 1)];
    } else if (at > 0) {
      span = alignments_[at - 1];
    }
    if (change <= 0) skip(1 + static_cast<std::size_t>(-static_cast<std::int64_t>(change)));
    const auto size = result.size();
    append_utf8(result, character);
    alignments.insert(alignments.end(), result.size() - size, span);
  }
  text_ = std::move(result);
  alignments_ = std::move(alignments);
}

void NormalizedString::replace(std::span<const Match> matches, std::string_view content) {
  if (std::none_of(matches.begin(), matches.end(), [](const Match& match) { return match.matches; })) return;
  write_out();
  std::string result;
  std::vector<TextSpan> alignments;
  result.reserve(text_.size());
  alignments.reserve(text_.size());
  for (const auto& [span, matched] : matches) {
    if (!matched) {
      result.append(text_, span.begin, span.end - span.begin);
      alignments.insert(alignments.end(), alignments_.begin() + static_cast<std::ptrdiff_t>(span.begin),
                        alignments_.begin() + static_cast<std::ptrdiff_t>(span.end));
      continue;
    }
    // Inserted text belongs to the last character that it replaces, or to the one before it.
    result += content;
    alignments.insert(alignments.end(), content.size(),
                      span.end == 0 ? TextSpan{part_.begin, part_.begin} : alignments_[span.end - 1]);
  }
  text_ = std::move(result);
  alignments_ = std::move(alignments);
}

void NormalizedString::prepend(std::string_view content) {
  if (text().empty()) return;
  write_out();
  text_.insert(0, content);
  alignments_.insert(alignments_.begin(), content.size(), alignments_.front());
}

void NormalizedString::append(std::string_view bytes, TextSpan origin) {
  write_out();
  text_ += bytes;
  alignments_.insert(alignments_.end(), bytes.size(), origin);
}

void NormalizedString::append(const NormalizedString& other, TextSpan span) {
  write_out();
  text_ += other.text().substr(span.begin, span.end - span.begin);
  if (other.changed_) {
    alignments_.insert(alignments_.end(), other.alignments_.begin() + static_cast<std::ptrdiff_t>(span.begin),
                       other.alignments_.begin() + static_cast<std::ptrdiff_t>(span.end));
    return;
  }
  for (std::size_t at = span.begin; at < span.end;) {
    const auto origin = other.alignment(at);
    const auto next = std::min(span.end, origin.end - other.part_.begin);
    alignments_.insert(alignments_.end(), next - at, origin);
    at = next;
  }
}

NormalizedString NormalizedString::empty(std::string_view original, std::size_t bytes) {
  NormalizedString result(original, {0, 0});
  result.changed_ = true;
  result.text_.reserve(bytes);
  result.alignments_.reserve(bytes);
  return result;
}

}  // namespace hooked::text
