#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "text/pattern.h"
#include "text/pre_tokenizer.h"

namespace hooked {

/// Puts a blank before every piece that does not begin with one.
class PrefixBlank : public PreTokenizer {
 public:
  void apply(PreTokenized& text) const override;
};

/// Spells each byte as one character (`byte_characters.h`): the last step of ByteLevel.
class ByteSpelling : public PreTokenizer {
 public:
  void apply(PreTokenized& text) const override;
  bool only_spells_bytes() const noexcept override { return true; }
};

/// Cuts at the matches of a pattern, or (inverted) at what lies between them.
class SplitAtPattern : public PreTokenizer {
 public:
  struct Options {
    DelimiterBehavior behavior = DelimiterBehavior::isolated;
    bool invert = false;
  };
  SplitAtPattern(Pattern pattern, Options options) : pattern_(std::move(pattern)), options_(options) {}
  void apply(PreTokenized& text) const override;

 private:
  Pattern pattern_;
  Options options_;
};

/// Cuts at the characters that a predicate accepts: digits, punctuation, white space.
class SplitAtCharacters : public PreTokenizer {
 public:
  using Predicate = bool (*)(char32_t) noexcept;
  SplitAtCharacters(Predicate is_delimiter, DelimiterBehavior behavior)
      : is_delimiter_(is_delimiter), behavior_(behavior) {}
  void apply(PreTokenized& text) const override;

 private:
  Predicate is_delimiter_;
  DelimiterBehavior behavior_;
};

/// Cuts at one character, which is removed.
class SplitAtCharacter : public PreTokenizer {
 public:
  explicit SplitAtCharacter(char32_t delimiter) : delimiter_(delimiter) {}
  void apply(PreTokenized& text) const override;

 private:
  char32_t delimiter_;
};

/// Keeps words and runs of punctuation: `\w+|[^\w\s]+`.
class WhitespacePreTokenizer : public PreTokenizer {
 public:
  void apply(PreTokenized& text) const override;
};

/// Puts a visible character in the place of blanks, before texts too, and cuts before each.
class Metaspace : public PreTokenizer {
 public:
  enum class Prepend : std::uint8_t {
    always,  ///< to every piece that does not begin with the character
    first,   ///< to the piece at the beginning of the text only
    never,
  };
  struct Options {
    char32_t replacement = U'\u2581';
    Prepend prepend = Prepend::always;
    bool split = true;
  };
  explicit Metaspace(Options options);
  void apply(PreTokenized& text) const override;

 private:
  Options options_;
  std::string replacement_;  // the same as UTF-8
};

/// Cuts into parts of so many characters.
class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(std::size_t length) : length_(length) {}
  void apply(PreTokenized& text) const override;

 private:
  std::size_t length_;
};

}  // namespace hooked
