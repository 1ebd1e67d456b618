#include "text/pipeline/normalizer.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "text/pipeline/precompiled_normalizer.h"
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
  struct Options {
    bool clean_text = true;
    bool handle_chinese_chars = true;
    bool strip_accents = true;
    bool lowercase = true;
  };
  explicit BertNormalizer(Options options) : options_(options) {}

  static NormalizerPtr read(const ConfigReader& json) {
    const bool lowercase = json.boolean("lowercase");
    return std::make_unique<BertNormalizer>(
        Options{.clean_text = json.boolean("clean_text"),
                .handle_chinese_chars = json.boolean("handle_chinese_chars"),
                .strip_accents = json.boolean_or("strip_accents", lowercase),
                .lowercase = lowercase});
  }

  void apply(NormalizedString& text) const override {
    if (options_.clean_text) clean_for_bert(text);
    if (options_.handle_chinese_chars) surround_chinese_by_blanks(text);
    if (options_.strip_accents && !is_ascii(text.text())) {
      to_form(text, NormalizationForm::nfd);
      keep_only(text, [](char32_t c) { return !is_nonspacing_mark(c); });
    }
    if (options_.lowercase) to_lower_case(text);
  }

 private:
  Options options_;
};

// Replaces every match by a string.
class ReplaceNormalizer : public Normalizer {
 public:
  ReplaceNormalizer(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  static NormalizerPtr read(const ConfigReader& json) {
    return std::make_unique<ReplaceNormalizer>(read_pattern(json.object("pattern")), json.text("content"));
  }

  void apply(NormalizedString& text) const override { text.replace(pattern_.cut(text.text()), content_); }

 private:
  Pattern pattern_;
  std::string content_;
};

// Puts a string before every text that is not empty.
class PrependNormalizer : public Normalizer {
 public:
  explicit PrependNormalizer(std::string content) : content_(std::move(content)) {}

  static NormalizerPtr read(const ConfigReader& json) {
    return std::make_unique<PrependNormalizer>(json.text("prepend"));
  }

  void apply(NormalizedString& text) const override { text.prepend(content_); }

 private:
  std::string content_;
};

// Removes white space at the ends.
class StripNormalizer : public Normalizer {
 public:
  struct Options {
    bool left = true;
    bool right = true;
  };
  explicit StripNormalizer(Options options) : options_(options) {}

  static NormalizerPtr read(const ConfigReader& json) {
    return std::make_unique<StripNormalizer>(
        Options{.left = json.boolean("strip_left"), .right = json.boolean("strip_right")});
  }

  void apply(NormalizedString& text) const override {
    std::vector<Change> changes;
    std::size_t dropped = 0;
    std::size_t kept = 0;  // changes up to the last character that is not white space
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

 private:
  Options options_;
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
  explicit NormalizerSequence(std::vector<NormalizerPtr> steps) : steps_(std::move(steps)) {}

  static NormalizerPtr read(const ConfigReader& json) {
    std::vector<NormalizerPtr> steps;
    for (const auto& step : json.objects("normalizers")) steps.push_back(read_normalizer(step));
    return std::make_unique<NormalizerSequence>(std::move(steps));
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

// A normalizer without options.
template <class Plain>
NormalizerPtr read_plain_normalizer(const ConfigReader&) {
  return std::make_unique<Plain>();
}

constexpr Named<NormalizerPtr (*)(const ConfigReader&)> kNormalizers[] = {
    {"NFC", read_form<NormalizationForm::nfc>},
    {"NFD", read_form<NormalizationForm::nfd>},
    {"NFKC", read_form<NormalizationForm::nfkc>},
    {"NFKD", read_form<NormalizationForm::nfkd>},
    {"Lowercase", read_plain_normalizer<LowercaseNormalizer>},
    {"StripAccents", read_plain_normalizer<StripAccentsNormalizer>},
    {"BertNormalizer", BertNormalizer::read},
    {"Replace", ReplaceNormalizer::read},
    {"Prepend", PrependNormalizer::read},
    {"Strip", StripNormalizer::read},
    {"Nmt", read_plain_normalizer<NmtNormalizer>},
    {"Precompiled", read_precompiled_normalizer},
    {"ByteLevel", read_plain_normalizer<ByteLevelNormalizer>},
    {"Sequence", NormalizerSequence::read},
};

}  // namespace

std::unique_ptr<const Normalizer> read_normalizer(const ConfigReader& json) {
  return json.one_of("type", kNormalizers)(json);
}

}  // namespace hooked::text
