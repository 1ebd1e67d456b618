#include "text/post_processors.h"

#include <algorithm>

#include "text/byte_characters.h"
#include "text/unicode.h"

namespace hooked {
namespace {

// White space at the ends of a token, in characters.
struct Blanks {
  std::size_t leading = 0;
  std::size_t trailing = 0;
};

Blanks blanks_of(std::string_view text) {
  const auto blank = byte_character(' ');
  Blanks blanks;
  bool only_blanks = true;
  for_each_character(text, [&](char32_t c, std::string_view) {
    if (c == blank || is_space(c)) {
      blanks.leading += only_blanks ? 1 : 0;
      ++blanks.trailing;
    } else {
      only_blanks = false;
      blanks.trailing = 0;
    }
  });
  return blanks;
}

bool begins_character(std::string_view text, std::size_t byte) {
  return byte >= text.size() || (static_cast<unsigned char>(text[byte]) & 0xC0) != 0x80;
}

// Takes so many characters from the front of a span, or all.
void trim_front(std::string_view text, TextSpan& span, std::size_t characters) {
  for (; characters > 0 && span.begin < span.end; --characters) {
    do ++span.begin;
    while (span.begin < span.end && !begins_character(text, span.begin));
  }
}

// Takes so many characters from the end of a span, or all; none where the text before it is shorter than
// that.
void trim_back(std::string_view text, TextSpan& span, std::size_t characters) {
  if (span.end < characters) return;
  for (; characters > 0 && span.begin < span.end; --characters) {
    do --span.end;
    while (span.end > span.begin && !begins_character(text, span.end));
  }
}

}  // namespace

void TokenList::surround(const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& behind) {
  ids.insert(ids.begin(), before.begin(), before.end());
  offsets.insert(offsets.begin(), before.size(), {});
  ids.insert(ids.end(), behind.begin(), behind.end());
  offsets.insert(offsets.end(), behind.size(), {});
  if (before.empty()) return;
  std::unordered_map<std::size_t, std::string> moved;
  for (auto& [place, text] : texts) moved.emplace(place + before.size(), std::move(text));
  texts = std::move(moved);
}

void OffsetTrimmer::apply(TokenList& tokens, SpecialTokens, const Spelling& spelling) const {
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const auto text = tokens.texts.find(i);
    auto blanks = blanks_of(text == tokens.texts.end() ? spelling(tokens.ids[i]) : text->second);
    auto& span = tokens.offsets[i];
    if (blanks.leading > 0) {
      // A single blank at the beginning is the one that was put there, and stands for nothing.
      const bool first = i == 0 || span.begin == 0;
      if (first && prefix_ == PrefixBlank::yes && blanks.leading == 1) blanks.leading = 0;
      trim_front(tokens.original, span, blanks.leading);
    }
    trim_back(tokens.original, span, blanks.trailing);
  }
}

void SpecialTokenAdder::apply(TokenList& tokens, SpecialTokens special, const Spelling&) const {
  if (special == SpecialTokens::add) tokens.surround(before_, behind_);
}

std::vector<std::int64_t> SpecialTokenAdder::special_ids() const {
  auto ids = before_;
  ids.insert(ids.end(), behind_.begin(), behind_.end());
  return ids;
}

void PostProcessorSequence::apply(TokenList& tokens, SpecialTokens special, const Spelling& spelling) const {
  for (const auto& step : steps_) step->apply(tokens, special, spelling);
}

bool PostProcessorSequence::trims_offsets() const noexcept {
  return std::any_of(steps_.begin(), steps_.end(), [](const auto& step) { return step->trims_offsets(); });
}

std::vector<std::int64_t> PostProcessorSequence::special_ids() const {
  std::vector<std::int64_t> ids;
  for (const auto& step : steps_) {
    const auto more = step->special_ids();
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

}  // namespace hooked
