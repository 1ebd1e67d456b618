#include "text/pipeline/normalizer.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "text/strings/pattern.h"
#include "text/unicode/byte_characters.h"
#include "text/unicode/unicode.h"

namespace hooked::text {
namespace {

using NormalizerPtr = std::unique_ptr<const Normalizer>;

bool is_ascii(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(),
                     [](char byte) { return static_cast<unsigned char>(byte) < 0x80; });
}

// Removes the characters that `keep` refuses and replaces each of the others by `map(character)`.
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
      // A removed character counts as part of the one before it.
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

void clean_for_bert(NormalizedString& text) {
  keep_and_map(
      text,
      [](char32_t c) {
        if (c == '\t' || c == '\n' || c == '\r') return true;
        return c != 0 && c != 0xFFFD && !is_control_or_format(c);
      },
      [](char32_t c) { return is_space(c) ? U' ' : c; });
}

void surround_chinese_by_blanks(NormalizedString& text) {
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

// NFC, NFD, NFKC, NFKD.
class UnicodeFormNormalizer : public Normalizer {
 public:
  explicit UnicodeFormNormalizer(NormalizationForm form) : form_(form) {}

  void apply(NormalizedString& text) const override { to_form(text, form_); }

 private:
  NormalizationForm form_;
};

// Lower case, character by character, the same in every language.
class LowercaseNormalizer : public Normalizer {
 public:
  void apply(NormalizedString& text) const override { to_lower_case(text); }
};

// Removes combining marks.
class StripAccentsNormalizer : public Normalizer {
 public:
  void apply(NormalizedString& text) const override {
    if (!is_ascii(text.text())) keep_only(text, [](char32_t c) { return !is_mark(c); });
  }
};

// What BERT does before it cuts: replaces white space by blanks, removes control characters, surrounds
// Chinese characters by blanks, removes accents, lowers the case.
class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(const ConfigReader& json)
      : lowercase_(json.boolean("lowercase")),
        clean_text_(json.boolean("clean_text")),
        handle_chinese_chars_(json.boolean("handle_chinese_chars")),
        strip_accents_(json.boolean_or("strip_accents", lowercase_)) {}

  void apply(NormalizedString& text) const override {
    if (clean_text_) clean_for_bert(text);
    if (handle_chinese_chars_) surround_chinese_by_blanks(text);
    if (strip_accents_ && !is_ascii(text.text())) {
      to_form(text, NormalizationForm::nfd);
      keep_only(text, [](char32_t c) { return !is_nonspacing_mark(c); });
    }
    if (lowercase_) to_lower_case(text);
  }

 private:
  bool lowercase_;
  bool clean_text_;
  bool handle_chinese_chars_;
  bool strip_accents_;
};

// Replaces every match by a string.
class ReplaceNormalizer : public Normalizer {
 public:
  explicit ReplaceNormalizer(const ConfigReader& json)
      : pattern_(read_pattern(json.object("pattern"))), content_(json.text("content")) {}

  void apply(NormalizedString& text) const override { text.replace(pattern_.cut(text.text()), content_); }

 private:
  Pattern pattern_;
  std::string content_;
};

// Puts a string before every text that is not empty.
class PrependNormalizer : public Normalizer {
 public:
  explicit PrependNormalizer(const ConfigReader& json) : content_(json.text("prepend")) {}

  void apply(NormalizedString& text) const override { text.prepend(content_); }

 private:
  std::string content_;
};

// Removes white space at the ends.
class StripNormalizer : public Normalizer {
 public:
  explicit StripNormalizer(const ConfigReader& json)
      : left_(json.boolean("strip_left")), right_(json.boolean("strip_right")) {}

  void apply(NormalizedString& text) const override {
    std::vector<Change> changes;
    std::size_t dropped = 0;
    std::size_t kept = 0;  // changes up to the last character that is not white space
    for_each_character(text.text(), [&](char32_t c, std::string_view) {
      const bool space = is_space(c);
      if (space && changes.empty() && left_) {
        ++dropped;
        return;
      }
      changes.push_back({c, 0});
      if (!space) kept = changes.size();
    });
    const auto all = changes.size();
    if (right_) changes.resize(kept);
    if (dropped > 0 || changes.size() != all) text.transform(changes, dropped);
  }

 private:
  bool left_;
  bool right_;
};

// SentencePiece's rules for translation: removes control characters, replaces unusual white space by blanks.
class NmtNormalizer : public Normalizer {
 public:
  void apply(NormalizedString& text) const override {
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
};

// Spells every byte as one character (`byte_characters.h`).
class ByteLevelNormalizer : public Normalizer {
 public:
  void apply(NormalizedString& text) const override {
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
};

// Several steps, one after another.
class NormalizerSequence : public Normalizer {
 public:
  explicit NormalizerSequence(const ConfigReader& json) {
    for (const auto& step : json.objects("normalizers")) steps_.push_back(read_normalizer(step));
  }

  void apply(NormalizedString& text) const override {
    for (const auto& step : steps_) step->apply(text);
  }

 private:
  std::vector<NormalizerPtr> steps_;
};

template <NormalizationForm form>
NormalizerPtr read_form(const ConfigReader&) {
  return std::make_unique<UnicodeFormNormalizer>(form);
}

// A normalizer of a class, which reads its options if it has any.
template <class Kind>
NormalizerPtr normalizer_of(const ConfigReader& json) {
  if constexpr (std::is_constructible_v<Kind, const ConfigReader&>) {
    return std::make_unique<Kind>(json);
  } else {
    return std::make_unique<Kind>();
  }
}

constexpr Named<NormalizerPtr (*)(const ConfigReader&)> kNormalizers[] = {
    {"NFC", read_form<NormalizationForm::nfc>},
    {"NFD", read_form<NormalizationForm::nfd>},
    {"NFKC", read_form<NormalizationForm::nfkc>},
    {"NFKD", read_form<NormalizationForm::nfkd>},
    {"Lowercase", normalizer_of<LowercaseNormalizer>},
    {"StripAccents", normalizer_of<StripAccentsNormalizer>},
    {"BertNormalizer", normalizer_of<BertNormalizer>},
    {"Replace", normalizer_of<ReplaceNormalizer>},
    {"Prepend", normalizer_of<PrependNormalizer>},
    {"Strip", normalizer_of<StripNormalizer>},
    {"Nmt", normalizer_of<NmtNormalizer>},
    {"Precompiled", read_precompiled_normalizer},
    {"ByteLevel", normalizer_of<ByteLevelNormalizer>},
    {"Sequence", normalizer_of<NormalizerSequence>},
};

}  // namespace

std::unique_ptr<const Normalizer> read_normalizer(const ConfigReader& json) {
  return json.one_of("type", kNormalizers)(json);
}

}  // namespace hooked::text
