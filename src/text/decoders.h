#pragma once

#include <string>
#include <utility>
#include <vector>

#include "text/decoder.h"
#include "text/pattern.h"

namespace hooked {

/// Bytes spelled as characters become text again. What is no UTF-8 then becomes U+FFFD.
class ByteLevelDecoder : public Decoder {
 public:
  std::vector<std::string> apply(std::vector<std::string> texts) const override;
  std::string bytes_of(std::string text) const override;
};

/// Runs of pieces `<0xEF>` become the bytes they spell; a run that is no UTF-8, one U+FFFD for each byte.
class ByteFallbackDecoder : public Decoder {
 public:
  std::vector<std::string> apply(std::vector<std::string> texts) const override;
  std::string bytes_of(std::string text) const override;
};

/// Blanks before all tokens but the first and those with the continuing prefix, which goes.
class WordPieceDecoder : public Decoder {
 public:
  struct Options {
    std::string prefix = "##";
    bool cleanup = true;  ///< no blanks before punctuation and English contractions
  };
  explicit WordPieceDecoder(Options options) : options_(std::move(options)) {}
  std::vector<std::string> apply(std::vector<std::string> texts) const override;
  std::string bytes_of(std::string text) const override;

 private:
  Options options_;
};

/// Blanks for the visible character; none at the beginning where one was put there.
class MetaspaceDecoder : public Decoder {
 public:
  struct Options {
    char32_t replacement = U'\u2581';
    bool prepended = true;
  };
  explicit MetaspaceDecoder(Options options) : options_(options) {}
  std::vector<std::string> apply(std::vector<std::string> texts) const override;
  std::string bytes_of(std::string text) const override;

 private:
  Options options_;
};

/// Puts all texts together.
class FuseDecoder : public Decoder {
 public:
  std::vector<std::string> apply(std::vector<std::string> texts) const override;
};

/// Removes a character from the ends of each text, up to a number of times.
class StripDecoder : public Decoder {
 public:
  struct Options {
    char32_t content = U' ';
    std::size_t start = 0;
    std::size_t stop = 0;
  };
  explicit StripDecoder(Options options) : options_(options) {}
  std::vector<std::string> apply(std::vector<std::string> texts) const override;

 private:
  Options options_;
};

/// Puts a string in the place of every match, in each text.
class ReplaceDecoder : public Decoder {
 public:
  ReplaceDecoder(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  std::vector<std::string> apply(std::vector<std::string> texts) const override;
  std::string bytes_of(std::string text) const override;

 private:
  Pattern pattern_;
  std::string content_;
};

/// Blanks for the suffix that ends words; none at the end.
class BpeDecoder : public Decoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  std::vector<std::string> apply(std::vector<std::string> texts) const override;
  std::string bytes_of(std::string text) const override;

 private:
  std::string suffix_;
};

/// Speech models: equal neighbours are one, the padding token goes, blanks for the token between words.
class CtcDecoder : public Decoder {
 public:
  struct Options {
    std::string pad_token = "<pad>";
    std::string word_delimiter_token = "|";
    bool cleanup = true;
  };
  explicit CtcDecoder(Options options) : options_(std::move(options)) {}
  std::vector<std::string> apply(std::vector<std::string> texts) const override;

 private:
  Options options_;
};

/// Several, one after the other.
class DecoderSequence : public Decoder {
 public:
  explicit DecoderSequence(std::vector<std::unique_ptr<const Decoder>> steps) : steps_(std::move(steps)) {}
  std::vector<std::string> apply(std::vector<std::string> texts) const override;
  std::string bytes_of(std::string text) const override;

 private:
  std::vector<std::unique_ptr<const Decoder>> steps_;
};

}  // namespace hooked
