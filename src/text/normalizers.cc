#include "text/normalizers.h"

#include <algorithm>

#include "text/byte_characters.h"
#include "text/unicode.h"

namespace hooked {
namespace {

bool is_ascii(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(),
                     [](char byte) { return static_cast<unsigned char>(byte) < 0x80; });
}

// Removes the characters that `keep` refuses and puts `map(character)` in the place of the others.
template <class Keep, class Map>
void keep_and_map(NormalizedString& text, Keep&& keep, Map&& map) {
  std::vector<Change> changes;
  changes.reserve(text.text().size());
  std::size_t dropped = 0;
  bool changed = false;
  for_each_character(text.text(), [&](char32_t c, std::string_view) {
    if (keep(c)) {
      changes.push_back({map(c), 0});
      changed |= changes.back().character != c;
    } else {
      changed = true;
      // A removed character goes with the one before it.
      if (changes.empty()) {
        ++dropped;
      } else {
        --changes.back().change;
      }
    }
  });
  if (changed) text.transform(changes, dropped);
}

template <class Keep>
void keep_only(NormalizedString& text, Keep&& keep) {
  keep_and_map(text, keep, [](char32_t c) { return c; });
}

void to_lower_case(NormalizedString& text) {
  std::vector<Change> changes;
  changes.reserve(text.text().size());
  bool changed = false;
  for_each_character(text.text(), [&](char32_t c, std::string_view) {
    if (c < 0x80) {
      const bool upper = c >= 'A' && c <= 'Z';
      changed |= upper;
      changes.push_back({upper ? c + 32 : c, 0});
      return;
    }
    std::int32_t change = 0;
    for (const auto lower : lower_case(c)) {
      changed |= lower != c;
      changes.push_back({lower, change});
      change = 1;
    }
  });
  if (changed) text.transform(changes);
}

void to_form(NormalizedString& text, NormalizationForm form) {
  if (!is_ascii(text.text())) text.transform(normalized(text.text(), form));
}

// The blocks that BERT calls Chinese.
bool is_chinese(char32_t c) noexcept {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

void clean(NormalizedString& text) {
  keep_and_map(
      text,
      [](char32_t c) {
        if (c == '\t' || c == '\n' || c == '\r') return true;
        return c != 0 && c != 0xFFFD && !is_control_or_format(c);
      },
      [](char32_t c) { return is_space(c) ? U' ' : c; });
}

void set_chinese_apart(NormalizedString& text) {
  std::vector<Change> changes;
  bool changed = false;
  for_each_character(text.text(), [&](char32_t c, std::string_view) {
    if (!is_chinese(c)) {
      changes.push_back({c, 0});
      return;
    }
    changed = true;
    changes.insert(changes.end(), {{U' ', 0}, {c, 1}, {U' ', 1}});
  });
  if (changed) text.transform(changes);
}

}  // namespace

void UnicodeFormNormalizer::apply(NormalizedString& text) const { to_form(text, form_); }

void LowercaseNormalizer::apply(NormalizedString& text) const { to_lower_case(text); }

void StripAccentsNormalizer::apply(NormalizedString& text) const {
  if (!is_ascii(text.text())) keep_only(text, [](char32_t c) { return !is_mark(c); });
}

void BertNormalizer::apply(NormalizedString& text) const {
  if (options_.clean_text) clean(text);
  if (options_.handle_chinese_chars) set_chinese_apart(text);
  if (options_.strip_accents && !is_ascii(text.text())) {
    to_form(text, NormalizationForm::nfd);
    keep_only(text, [](char32_t c) { return !is_nonspacing_mark(c); });
  }
  if (options_.lowercase) to_lower_case(text);
}

void ReplaceNormalizer::apply(NormalizedString& text) const {
  text.replace(pattern_.cut(text.text()), content_);
}

void StripNormalizer::apply(NormalizedString& text) const {
  std::vector<Change> changes;
  std::size_t dropped = 0;
  std::size_t kept = 0;  // changes up to the last character that is no white space
  for_each_character(text.text(), [&](char32_t c, std::string_view) {
    const bool space = is_space(c);
    if (space && changes.empty() && options_.left) {
      ++dropped;
      return;
    }
    changes.push_back({c, 0});
    if (!space) kept = changes.size();
  });
  const auto all = changes.size();
  if (options_.right) changes.resize(kept);
  if (dropped > 0 || changes.size() != all) text.transform(changes, dropped);
}

void NmtNormalizer::apply(NormalizedString& text) const {
  keep_and_map(
      text,
      [](char32_t c) {
        return !((c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
                 c == 0x8F || c == 0x9F);
      },
      [](char32_t c) {
        const bool blank = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                           (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                           c == 0xFEFF || c == 0xFFFD;
        return blank ? U' ' : c;
      });
}

void ByteLevelNormalizer::apply(NormalizedString& text) const {
  std::vector<Change> changes;
  changes.reserve(text.text().size());
  for_each_character(text.text(), [&](char32_t, std::string_view bytes) {
    std::int32_t change = 0;
    for (const auto byte : bytes) {
      changes.push_back({byte_character(static_cast<unsigned char>(byte)), change});
      change = 1;
    }
  });
  text.transform(changes);
}

}  // namespace hooked
