#pragma once

#include <string>
#include <utility>
#include <vector>

#include "text/normalization_forms.h"
#include "text/normalizer.h"
#include "text/pattern.h"

namespace hooked {

/// NFC, NFD, NFKC, NFKD.
class UnicodeFormNormalizer : public Normalizer {
 public:
  explicit UnicodeFormNormalizer(NormalizationForm form) : form_(form) {}
  void apply(NormalizedString& text) const override;

 private:
  NormalizationForm form_;
};

/// Lower case, character by character, without regard to language.
class LowercaseNormalizer : public Normalizer {
 public:
  void apply(NormalizedString& text) const override;
};

/// Removes combining marks.
class StripAccentsNormalizer : public Normalizer {
 public:
  void apply(NormalizedString& text) const override;
};

/// What BERT does before cutting: blanks for all white space, no control characters, blanks around Chinese
/// characters, no accents, lower case.
class BertNormalizer : public Normalizer {
 public:
  struct Options {
    bool clean_text = true;
    bool handle_chinese_chars = true;
    bool strip_accents = true;
    bool lowercase = true;
  };
  explicit BertNormalizer(Options options) : options_(options) {}
  void apply(NormalizedString& text) const override;

 private:
  Options options_;
};

/// Puts a string in the place of every match.
class ReplaceNormalizer : public Normalizer {
 public:
  ReplaceNormalizer(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(NormalizedString& text) const override;

 private:
  Pattern pattern_;
  std::string content_;
};

/// Puts a string before every text that is not empty.
class PrependNormalizer : public Normalizer {
 public:
  explicit PrependNormalizer(std::string content) : content_(std::move(content)) {}
  void apply(NormalizedString& text) const override { text.prepend(content_); }

 private:
  std::string content_;
};

/// Removes white space at the ends.
class StripNormalizer : public Normalizer {
 public:
  struct Options {
    bool left = true;
    bool right = true;
  };
  explicit StripNormalizer(Options options) : options_(options) {}
  void apply(NormalizedString& text) const override;

 private:
  Options options_;
};

/// SentencePiece's rules for translation: no control characters, blanks for unusual white space.
class NmtNormalizer : public Normalizer {
 public:
  void apply(NormalizedString& text) const override;
};

/// Spells every byte as one character (`byte_characters.h`).
class ByteLevelNormalizer : public Normalizer {
 public:
  void apply(NormalizedString& text) const override;
};

/// Several, one after the other.
class NormalizerSequence : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<const Normalizer>> steps)
      : steps_(std::move(steps)) {}
  void apply(NormalizedString& text) const override {
    for (const auto& step : steps_) step->apply(text);
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> steps_;
};

}  // namespace hooked
